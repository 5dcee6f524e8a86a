"""The XRootD programs: interpretation of their messages, and behaviour without them."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from sandbox.storage import Kind, Storage, StorageError, Timeouts
from tests.unit.sandbox.storage.conftest import Make

URL = "root://se.example.org:1094//store/a.root"


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the only directory of PATH."""
    directory = tmp_path / "bin"
    directory.mkdir()
    monkeypatch.setenv("PATH", str(directory))
    return directory


def install(programs: Path, name: str, code: str) -> None:
    path = programs / name
    path.write_text(f"#!{sys.executable} -S\nimport os, sys, time\n{code}\n")
    path.chmod(0o755)


@pytest.mark.usefixtures("programs")
def test_without_the_programs_the_error_has_the_cure(storage: Storage, local: Path) -> None:
    with pytest.raises(StorageError, match="install xrootd-client") as refused:
        storage.put(local, URL)
    assert refused.value.kind is Kind.SETUP


@pytest.mark.parametrize(
    ("message", "kind", "status"),
    [
        ("[ERROR] Server responded with an error: [3011] no such file or directory", Kind.ABSENT, 3011),
        ("[ERROR] Server responded with an error: [3010] permission denied", Kind.DENIED, 3010),
        ("Run: [FATAL] Auth failed: No protocols left to try (source)", Kind.DENIED, 0),
        ("[ERROR] Server responded with an error: [3009] no space left on device", Kind.FULL, 3009),
        ("[ERROR] Server responded with an error: [3021] quota exceeded", Kind.QUOTA, 3021),
        ("Run: [FATAL] Connection error:  (source)", Kind.DOWN, 0),
        ("Run: [FATAL] Invalid address:  (source)", Kind.DOWN, 0),
        ("Run: [ERROR] Operation expired:  (source)", Kind.TIMEOUT, 0),
        ("Run: [ERROR] CheckSum error: (destination)", Kind.DAMAGED, 0),
        ("[ERROR] Server responded with an error: [3018] directory not empty", Kind.REFUSED, 3018),
        ("anything else", Kind.REFUSED, 0),
    ],
)
def test_a_message_has_its_kind(
    programs: Path, storage: Storage, message: str, kind: Kind, status: int
) -> None:
    install(programs, "xrdfs", f"sys.stderr.write({message!r}); sys.exit(54)")
    with pytest.raises(StorageError) as refused:
        storage.stat(URL)
    assert (refused.value.kind, refused.value.status) == (kind, status)


def test_a_program_that_hangs_is_ended(programs: Path, make_storage: Make) -> None:
    install(programs, "xrdfs", "time.sleep(600)")
    storage = make_storage(timeouts=Timeouts(fixed_sec=0.2))
    with pytest.raises(StorageError) as refused:
        storage.stat(URL)
    assert refused.value.kind is Kind.TIMEOUT


def test_the_programs_get_the_token_and_the_authorities(programs: Path, make_storage: Make) -> None:
    install(programs, "xrdfs", "print('Size: 7'); print('adler32', os.environ['BEARER_TOKEN'])")
    assert make_storage(token=lambda: "12ab").stat(URL).adler32 == "000012ab"
    install(programs, "xrdfs", "sys.stderr.write(os.environ['X509_CERT_FILE']); sys.exit(1)")
    with pytest.raises(StorageError, match=r"/the/ca\.pem"):
        make_storage(ca_file="/the/ca.pem").stat(URL)
