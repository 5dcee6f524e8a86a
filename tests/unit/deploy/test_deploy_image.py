"""Building the image: missing tools are named, and no host but that of the base image."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
CANNOT = 3
TOOLS = ("bash", "dirname", "readlink", "sed", "id", "mktemp", "rm", "timeout", "env", "cut")
# a builder that works, has no image and reaches no registry
OFFLINE_BUILDER = """#!/bin/sh
for word in "$@"; do
  case $word in inspect|pull) echo "no such image" >&2; exit 125;; unshare) shift 2; exec "$@";; esac
done
"""


@pytest.fixture
def tools(tmp_path: Path) -> Path:
    """Return a directory of tools with little more than a shell, the only one in PATH."""
    directory = tmp_path / "bin"
    directory.mkdir()
    for name in TOOLS:
        found = shutil.which(name)
        assert found, name
        (directory / name).symlink_to(found)
    return directory


def add_tool(tools: Path, name: str, text: str) -> None:
    (tools / name).write_text(text)
    (tools / name).chmod(0o755)


def build_image(tools: Path, **settings: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [ROOT / "deploy" / "build-image"],
        env={"PATH": str(tools), "TMPDIR": str(tools.parent), **settings},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


def test_without_a_builder_the_error_names_what_to_install(tools: Path) -> None:
    done = build_image(tools)
    assert (done.returncode, done.stderr) == (
        CANNOT,
        "[build-image] ERROR: buildah is missing: install the package buildah\n",
    )


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({}, "debootstrap is missing: install it, or name an image with BASE_IMAGE"),
        ({"BASE_IMAGE": "registry.example.org/debian"}, "registry.example.org/debian cannot be pulled"),
    ],
)
def test_a_missing_base_image_is_reported(tools: Path, settings: dict[str, str], message: str) -> None:
    add_tool(tools, "buildah", OFFLINE_BUILDER)
    add_tool(tools, "unshare", "#!/bin/sh\n")
    done = build_image(tools, _CONTAINERS_USERNS_CONFIGURED="done", **settings)
    assert (done.returncode, done.stderr.splitlines()[-1]) == (CANNOT, f"[build-image] ERROR: {message}")


def test_the_tests_of_the_image_are_skipped_where_no_builder_is(tools: Path) -> None:
    program = '. "$1/lab/bootstrap/image.sh"; make_image; echo "$WMS2_IMAGE_MISSING"'
    done = subprocess.run(
        [shutil.which("bash") or "", "-euo", "pipefail", "-c", program, "-", ROOT],
        env={"PATH": str(tools)},
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert done.stdout == "buildah is not installed\n"


@pytest.mark.parametrize("name", ["Dockerfile", "deploy/build-image", "lab/bootstrap/image.sh"])
def test_no_mirror_registry_or_index_is_named(name: str) -> None:
    text = (ROOT / name).read_text()
    assert not re.search(r"https?://\w|\bdocker\.io|\bquay\.io|\bdebian\.org|\bpypi\.org", text)


def test_both_stages_stand_on_one_base_that_can_be_replaced() -> None:
    lines = (ROOT / "Dockerfile").read_text().splitlines()
    assert [line.split()[1] for line in lines if line.startswith("FROM ")] == ["${BASE_IMAGE}"] * 2
    assert os.access(ROOT / "deploy" / "build-image", os.X_OK)
