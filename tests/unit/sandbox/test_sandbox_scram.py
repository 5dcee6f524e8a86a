"""The operating system of a ScramArch and of a node."""

from __future__ import annotations

from pathlib import Path

import pytest

from sandbox.scram import node_version, required_os


@pytest.mark.parametrize(
    ("arches", "system"),
    [
        (["el8_amd64_gcc12"], "rhel8"),
        (["el9_amd64_gcc12"], "rhel9"),
        (["slc7_amd64_gcc700"], "rhel7"),
        (["slc6_amd64_gcc530", "slc6_amd64_gcc481"], "rhel6"),
        (["cs8_amd64_gcc10"], "rhel8"),
        (["slc7_amd64_gcc700", "el8_amd64_gcc12"], "any"),
        (["el8_amd64_gcc12", "osx10_amd64_gcc12"], "any"),
        (["osx10_amd64_gcc12"], "any"),
        ([], "any"),
    ],
)
def test_system_is_that_of_all_arches(arches: list[str], system: str) -> None:
    assert required_os(arches) == system


@pytest.mark.parametrize(
    ("os_release", "redhat_release", "version"),
    [
        ('ID="almalinux"\nID_LIKE="rhel centos fedora"\nVERSION_ID="8.10"\n', "", 8),
        ('ID="rhel"\nVERSION_ID="9"\n', "", 9),
        ("ID=centos\nVERSION_ID=7\n", "", 7),
        ('ID=debian\nVERSION_ID="12"\n', "", None),
        ("", "Scientific Linux CERN SLC release 6.10 (Carbon)\n", 6),
        ("", "", None),
    ],
)
def test_node_is_known_by_its_release_files(
    tmp_path: Path, os_release: str, redhat_release: str, version: int | None
) -> None:
    paths = tmp_path / "os-release", tmp_path / "redhat-release"
    for path, text in zip(paths, (os_release, redhat_release), strict=True):
        if text:
            path.write_text(text)

    assert node_version(*paths) == version
