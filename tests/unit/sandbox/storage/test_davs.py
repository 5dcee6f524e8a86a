"""WebDAV with servers that refuse, redirect, cut and hang."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from pathlib import Path

import pytest

from sandbox.storage import Entry, FileStat, Kind, Storage, StorageError, Timeouts
from tests.contract.storage.faults import closed_port
from tests.unit.sandbox.storage.conftest import Make
from tests.unit.sandbox.storage.webdav import Fault, Serve, Server

LFN = "/store/unmerged/a/one.root"
READ = {"stat", "get", "open"}


def refused(action: Callable[[], object]) -> StorageError:
    with pytest.raises(StorageError) as error:
        action()
    return error.value


def facts(content: bytes) -> FileStat:
    return FileStat(len(content), f"{zlib.adler32(content):08x}")


@pytest.mark.parametrize(
    ("status", "text", "kind"),
    [
        (401, "", Kind.DENIED),
        (403, "permission denied", Kind.DENIED),
        (404, "no such file", Kind.ABSENT),
        (400, "bad request", Kind.REFUSED),
        (408, "", Kind.TIMEOUT),
        (429, "slow down", Kind.DOWN),
        (500, "Internal error", Kind.DOWN),
        (500, "write failed; no space left on device", Kind.FULL),
        (503, "in maintenance", Kind.DOWN),
        (507, "Insufficient Storage", Kind.FULL),
        (507, "Quota of the group is exceeded", Kind.QUOTA),
    ],
)
def test_a_status_has_its_kind(
    server: Server, storage: Storage, tmp_path: Path, status: int, text: str, kind: Kind
) -> None:
    server.faults = [Fault("GET", status=status, text=text)]
    error = refused(lambda: storage.get(f"{server.url}{LFN}", tmp_path / "back"))
    assert (error.kind, error.status) == (kind, status)
    assert LFN in error.message
    assert text in error.message


@pytest.mark.parametrize(
    ("status", "text", "kind"),
    [(403, "", Kind.DENIED), (507, "", Kind.FULL), (507, "quota", Kind.QUOTA), (500, "", Kind.DOWN)],
)
@pytest.mark.parametrize("late", [False, True], ids=["before-the-content", "in-the-middle"])
def test_a_refused_upload_has_its_kind_and_leaves_nothing(
    server: Server, storage: Storage, local: Path, status: int, text: str, kind: Kind, late: bool
) -> None:
    server.faults = [Fault("PUT", status=status, text=text, late=late)]
    error = refused(lambda: storage.put(local, f"{server.url}{LFN}"))
    assert (error.kind, error.status) == (kind, status)
    assert server.files() == []


def test_half_a_file_is_not_taken_for_the_file(server: Server, storage: Storage, tmp_path: Path) -> None:
    server.file(LFN, b"x" * 1000)
    server.faults = [Fault("GET", cut=True)]
    error = refused(lambda: storage.get(f"{server.url}{LFN}", tmp_path / "back"))
    assert error.kind is Kind.DAMAGED
    assert "500 of 1000 bytes" in error.message


@pytest.mark.parametrize("has_checksums", [True, False])
def test_an_upload_that_lost_bytes_is_not_published(
    server: Server, storage: Storage, local: Path, has_checksums: bool
) -> None:
    server.has_checksums = has_checksums
    server.faults = [Fault("PUT", cut=True)]
    error = refused(lambda: storage.put(local, f"{server.url}{LFN}"))
    assert error.kind is Kind.DAMAGED
    assert server.files() == []


def test_a_storage_without_checksums_is_read_back(server: Server, storage: Storage, local: Path) -> None:
    server.has_checksums = False
    storage.put(local, f"{server.url}{LFN}")
    assert storage.stat(f"{server.url}{LFN}") == FileStat(local.stat().st_size, "")
    assert server.methods() == ["PUT", "HEAD", "GET", "MOVE", "HEAD"]


def test_a_transfer_is_tried_three_times(server: Server, make_storage: Make, local: Path) -> None:
    storage = make_storage(pauses_sec=(0, 0))
    server.faults = [Fault("PUT", status=503, text="busy", times=2)]
    done = storage.put(local, f"{server.url}{LFN}")
    assert done.tries == 3
    assert "503 busy" in done.problem
    assert server.files() == [LFN]
    server.faults = [Fault("PUT", status=503)]
    server.seen.clear()
    assert refused(lambda: storage.put(local, f"{server.url}{LFN}")).kind is Kind.DOWN
    assert server.methods().count("PUT") == 3


@pytest.mark.parametrize("status", [403, 404, 507])
def test_a_refusal_is_not_tried_again(
    server: Server, make_storage: Make, tmp_path: Path, status: int
) -> None:
    server.faults = [Fault("GET", status=status)]
    refused(lambda: make_storage(pauses_sec=(0, 0)).get(f"{server.url}{LFN}", tmp_path / "back"))
    assert server.methods() == ["GET"]


def test_a_refused_connection_is_a_storage_that_is_down(storage: Storage, local: Path) -> None:
    with closed_port() as port:
        error = refused(lambda: storage.put(local, f"davs://localhost:{port}{LFN}"))
    assert (error.kind, error.status) == (Kind.DOWN, 0)


def test_an_unknown_host_is_a_storage_that_is_down(storage: Storage, local: Path) -> None:
    assert refused(lambda: storage.put(local, f"davs://no-such-host.invalid{LFN}")).kind is Kind.DOWN


@pytest.mark.parametrize("method", ["PUT", "HEAD", "MOVE"])
def test_a_silent_storage_times_out(server: Server, make_storage: Make, local: Path, method: str) -> None:
    storage = make_storage(timeouts=Timeouts(connect_sec=10, idle_sec=0.2, fixed_sec=0.2))
    server.faults = [Fault(method, hang=True)]
    assert refused(lambda: storage.put(local, f"{server.url}{LFN}")).kind is Kind.TIMEOUT


def test_the_time_for_a_transfer_grows_with_its_size() -> None:
    timeouts = Timeouts(fixed_sec=10, bytes_per_sec=1000)
    assert timeouts.deadline(50_000).seconds == 60


def test_connections_are_kept_open(server: Server, storage: Storage, local: Path, tmp_path: Path) -> None:
    local.write_bytes(b"small")
    for number in range(5):
        storage.put(local, f"{server.url}{LFN}{number}")
        storage.get(f"{server.url}{LFN}{number}", tmp_path / "back")
    assert server.methods() == ["PUT", "GET", "MOVE", "GET"] * 5
    assert len({one.connection for one in server.seen}) == 1


def test_no_request_follows_the_question_for_a_checksum_on_its_connection(
    server: Server, storage: Storage, local: Path
) -> None:
    for number in range(5):
        storage.put(local, f"{server.url}{LFN}{number}")
    asked = [number for number, one in enumerate(server.seen) if one.method == "HEAD"]
    assert len(asked) == 5
    for number in asked:
        later = {one.connection for one in server.seen[number + 1 :]}
        assert server.seen[number].connection not in later


def test_a_kept_connection_that_the_server_closed_is_replaced(
    server: Server, storage: Storage, tmp_path: Path
) -> None:
    server.file(LFN, b"content")
    storage.get(f"{server.url}{LFN}", tmp_path / "back")
    server.faults = [Fault("GET", drop=True, times=1)]
    assert storage.get(f"{server.url}{LFN}", tmp_path / "back").result == facts(b"content")
    assert len({one.connection for one in server.seen}) == 2


def test_the_token_is_sent_and_a_renewed_one_is_used_after_a_refusal(
    server: Server, make_storage: Make, tmp_path: Path
) -> None:
    server.file(LFN, b"content")
    server.tokens = {"new"}
    given = iter(["old"])
    storage = make_storage(token=lambda: next(given, "new"))
    assert storage.get(f"{server.url}{LFN}", tmp_path / "back").result == facts(b"content")
    assert [one.token for one in server.seen] == ["old", "new"]


def test_an_upload_whose_token_expires_continues_with_the_renewed_one(
    server: Server, make_storage: Make, local: Path
) -> None:
    server.tokens = {"new"}
    given = iter(["old"])
    make_storage(token=lambda: next(given, "new")).put(local, f"{server.url}{LFN}")
    assert server.files() == [LFN]


def test_a_token_that_was_not_renewed_is_not_tried_again(
    server: Server, make_storage: Make, tmp_path: Path
) -> None:
    server.tokens = {"new"}
    error = refused(lambda: make_storage(token=lambda: "old").get(f"{server.url}{LFN}", tmp_path / "back"))
    assert error.kind is Kind.DENIED
    assert server.methods() == ["GET"]


def test_a_redirection_is_followed_and_the_token_goes_to_https_only(
    serve: Serve, storage: Storage, local: Path
) -> None:
    door, secure, plain = serve("door"), serve("secure"), serve("plain", secure=False)
    for disk in (secure, plain):
        door.faults = [Fault("PUT", location=f"{disk.url.replace('davs', 'https')}{LFN}?x=1", times=1)]
        refused(lambda: storage.put(local, f"{door.url}{LFN}"))  # the file is not at the redirecting server
        assert disk.files() == [LFN]
    assert [one.token for one in secure.seen] == ["good"]
    assert [one.token for one in plain.seen] == [""]


def test_an_upload_sends_its_content_to_the_last_server_only(
    serve: Serve, storage: Storage, local: Path
) -> None:
    door, disk = serve("door"), serve("disk")
    door.faults = [Fault("PUT", location=f"{disk.url.replace('davs', 'https')}{LFN}")]
    refused(lambda: storage.put(local, f"{door.url}{LFN}"))
    assert door.files() == []
    assert disk.files() == [LFN]


def test_an_endless_redirection_ends(server: Server, storage: Storage, tmp_path: Path) -> None:
    server.faults = [Fault("GET", location=LFN)]
    error = refused(lambda: storage.get(f"{server.url}{LFN}", tmp_path / "back"))
    assert error.kind is Kind.REFUSED


def test_directories_are_made_where_the_storage_does_not(
    server: Server, storage: Storage, local: Path
) -> None:
    server.makes_parents = False
    storage.put(local, f"{server.url}{LFN}")
    assert server.files() == [LFN]


def test_a_file_is_replaced_where_the_storage_does_not_rename_over_files(
    server: Server, storage: Storage, local: Path
) -> None:
    server.renames_over_files = False
    server.file(LFN, b"old")
    storage.put(local, f"{server.url}{LFN}")
    assert server.files() == [LFN]
    assert storage.stat(f"{server.url}{LFN}").size_bytes == local.stat().st_size


def test_a_failed_rename_leaves_nothing(server: Server, storage: Storage, local: Path) -> None:
    server.faults = [Fault("MOVE", status=500)]
    refused(lambda: storage.put(local, f"{server.url}{LFN}"))
    assert server.files() == []


def test_a_directory_with_files_is_never_deleted_as_a_whole(server: Server, storage: Storage) -> None:
    server.file(LFN, b"content")
    error = refused(lambda: storage.remove_directory(f"{server.url}/store/unmerged"))
    assert error.kind is Kind.REFUSED
    assert server.files() == [LFN]


def test_a_listing_has_files_and_directories(server: Server, storage: Storage) -> None:
    server.file("/store/a/b=1#2.root", b"")
    server.file("/store/a/c/d.root", b"")
    listed = storage.list(f"{server.url}/store/a/")
    assert listed == [Entry("b=1#2.root", is_directory=False), Entry("c", is_directory=True)]


@pytest.mark.parametrize("text", ['<!DOCTYPE x [<!ENTITY a "b">]>', "<not closed"])
def test_a_hostile_listing_is_refused(server: Server, storage: Storage, text: str) -> None:
    server.file(LFN, b"")
    server.faults = [Fault("PROPFIND", text=text)]
    assert refused(lambda: storage.list(f"{server.url}/store")).kind is Kind.REFUSED


def test_a_third_party_copy_that_fails_at_its_end_is_an_error(server: Server, storage: Storage) -> None:
    server.file(LFN, b"content")
    server.faults = [Fault("COPY", cut=True)]
    error = refused(lambda: storage.copy(f"{server.url}{LFN}", f"{server.url}{LFN}.copy"))
    assert "the source is gone" in error.message
    assert server.files() == [LFN]


def test_a_full_local_disk_is_no_error_of_the_storage(server: Server, storage: Storage) -> None:
    server.file(LFN, b"x" * 100_000)
    error = refused(lambda: storage.get(f"{server.url}{LFN}", Path("/dev/full")))
    assert error.kind is Kind.LOCAL


def test_certificates_that_cannot_be_read_are_named(make_storage: Make, local: Path) -> None:
    storage = make_storage(ca_file="/no/such/ca.pem")
    error = refused(lambda: storage.put(local, f"davs://localhost{LFN}"))
    assert error.kind is Kind.SETUP
    assert "/no/such/ca.pem" in error.message
