"""Mounted storage: errors of the file system and their kinds."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

import pytest

from sandbox.storage import Kind, Storage, StorageError, discovered_token, posix, use_job_credentials


@pytest.mark.parametrize(
    ("number", "kind"),
    [
        (errno.EACCES, Kind.DENIED),
        (errno.EDQUOT, Kind.QUOTA),
        (errno.ENOSPC, Kind.FULL),
        (errno.EROFS, Kind.DOWN),
        (errno.ESTALE, Kind.DOWN),
        (errno.ETIMEDOUT, Kind.TIMEOUT),
        (errno.EIO, Kind.REFUSED),
    ],
)
def test_an_error_of_writing_has_its_kind(
    storage: Storage, local: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, kind: Kind
) -> None:
    def fail(*_: Any) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(posix, "rename_on_disk", fail)
    with pytest.raises(StorageError) as refused:
        storage.put(local, f"{tmp_path}/storage/a.root")
    assert (refused.value.kind, refused.value.status) == (kind, number)
    assert not list((tmp_path / "storage").iterdir())


def test_a_file_in_the_place_of_a_directory_is_refused(storage: Storage, local: Path, tmp_path: Path) -> None:
    (tmp_path / "storage").write_text("a file")
    with pytest.raises(StorageError) as refused:
        storage.put(local, f"{tmp_path}/storage/a/b.root")
    assert refused.value.kind is Kind.REFUSED


def test_links_are_listed_as_files(storage: Storage, tmp_path: Path) -> None:
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / "link").symlink_to(tmp_path)
    assert [(one.name, one.is_directory) for one in storage.list(f"{tmp_path}/d")] == [("link", False)]


@pytest.mark.parametrize("url", ["relative/path", "ftp://se/a", "file:/a", ""])
def test_an_unknown_scheme_is_refused(storage: Storage, url: str) -> None:
    with pytest.raises(StorageError) as refused:
        storage.stat(url)
    assert refused.value.kind is Kind.SETUP


# Tokens


@pytest.fixture
def environment(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    for name in ("BEARER_TOKEN", "BEARER_TOKEN_FILE"):
        monkeypatch.delenv(name, raising=False)
    return monkeypatch


def test_the_token_is_found_by_the_rules_of_wlcg(environment: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert discovered_token() == ""
    (tmp_path / "token").write_text("of.the.file\n")
    environment.setenv("BEARER_TOKEN_FILE", str(tmp_path / "token"))
    assert discovered_token() == "of.the.file"
    (tmp_path / "token").write_text("renewed\n")
    assert discovered_token() == "renewed"
    environment.setenv("BEARER_TOKEN", " of.the.variable ")
    assert discovered_token() == "of.the.variable"


def test_a_token_file_that_cannot_be_read_is_named(environment: pytest.MonkeyPatch, tmp_path: Path) -> None:
    environment.setenv("BEARER_TOKEN_FILE", str(tmp_path / "none"))
    with pytest.raises(StorageError, match="none") as refused:
        discovered_token()
    assert refused.value.kind is Kind.DENIED


def test_a_token_cannot_add_a_header(environment: pytest.MonkeyPatch) -> None:
    environment.setenv("BEARER_TOKEN", "a\r\nX-Other: b")
    with pytest.raises(StorageError, match="characters"):
        discovered_token()


def test_a_job_uses_the_token_of_htcondor(tmp_path: Path) -> None:
    given = {"_CONDOR_CREDS": str(tmp_path), "WMS2_TOKEN_FILE": "cms.use", "BEARER_TOKEN": "another"}
    use_job_credentials(given)
    assert (given["BEARER_TOKEN_FILE"], given.get("BEARER_TOKEN")) == (str(tmp_path / "cms.use"), None)


@pytest.mark.parametrize("missing", ["_CONDOR_CREDS", "WMS2_TOKEN_FILE"])
def test_without_a_token_of_htcondor_nothing_changes(tmp_path: Path, missing: str) -> None:
    given = {"_CONDOR_CREDS": str(tmp_path), "WMS2_TOKEN_FILE": "cms.use", "BEARER_TOKEN": "another"}
    given.pop(missing)
    before = dict(given)
    use_job_credentials(given)
    assert given == before
