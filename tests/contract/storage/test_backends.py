"""Every backend does the same with real storage."""

from __future__ import annotations

import zlib
from pathlib import Path
from uuid import uuid4

import pytest

from sandbox.storage import PART_MARK, FileStat, Kind, Storage, StorageError
from tests.contract.storage.conftest import Grid, Place, StorageWith
from tests.contract.storage.faults import closed_port

CONTENT = bytes(range(256)) * 9000  # more than one chunk
ABSENT_NAMES = ["none.root", "no/such/directory/none.root"]


@pytest.fixture
def storage(storage_with: StorageWith) -> Storage:
    return storage_with()


@pytest.fixture
def local(tmp_path: Path) -> Path:
    path = tmp_path / "local.root"
    path.write_bytes(CONTENT)
    return path


def facts(content: bytes) -> FileStat:
    return FileStat(len(content), f"{zlib.adler32(content):08x}")


def names(storage: Storage, url: str) -> list[str]:
    return sorted(entry.name for entry in storage.list(url))


def kind_of(error: pytest.ExceptionInfo[StorageError]) -> Kind:
    return error.value.kind


def test_a_file_arrives_whole_in_directories_that_did_not_exist(
    storage: Storage, place: Place, local: Path, tmp_path: Path
) -> None:
    url = f"{place.here}/a/b/one.root"
    done = storage.put(local, url)
    assert (done.result, done.tries) == (facts(CONTENT), 1)
    assert storage.stat(url) == facts(CONTENT)
    assert storage.get(url, tmp_path / "back").result == facts(CONTENT)
    assert (tmp_path / "back").read_bytes() == CONTENT
    assert names(storage, f"{place.here}/a/b") == ["one.root"]


def test_an_empty_file_is_a_file(storage: Storage, place: Place, tmp_path: Path) -> None:
    (tmp_path / "empty").touch()
    storage.put(tmp_path / "empty", f"{place.here}/empty.root")
    assert storage.get(f"{place.here}/empty.root", tmp_path / "back").result == facts(b"")


def test_a_file_is_replaced_by_a_complete_one(storage: Storage, place: Place, local: Path) -> None:
    url = f"{place.here}/one.root"
    storage.put(local, url)
    local.write_bytes(b"other")
    storage.put(local, url)
    assert storage.stat(url) == facts(b"other")
    assert names(storage, place.here) == ["one.root"]


def test_a_local_file_that_changed_is_not_published(storage: Storage, place: Place, local: Path) -> None:
    with pytest.raises(StorageError) as refused:
        storage.put(local, f"{place.here}/one.root", adler32="00000001")
    assert kind_of(refused) is Kind.LOCAL
    assert names(storage, place.here) == []


def test_a_missing_local_file_is_not_an_error_of_the_storage(
    storage: Storage, place: Place, tmp_path: Path
) -> None:
    with pytest.raises(StorageError) as refused:
        storage.put(tmp_path / "gone", f"{place.here}/one.root")
    assert kind_of(refused) is Kind.LOCAL


@pytest.mark.parametrize("name", ABSENT_NAMES)
def test_a_file_that_is_not_there_is_absent(
    storage: Storage, place: Place, tmp_path: Path, name: str
) -> None:
    url = f"{place.here}/{name}"
    for action in (storage.stat, storage.open, lambda url: storage.get(url, tmp_path / "back")):
        with pytest.raises(StorageError) as refused:
            action(url)
        assert kind_of(refused) is Kind.ABSENT
    assert storage.delete(url) is False
    assert storage.list(url) == []
    storage.remove_directory(url)


def test_deleting_leaves_the_others(storage: Storage, place: Place, local: Path) -> None:
    for name in ("a.root", "b.root", f"c.root{PART_MARK}0123abcd"):
        storage.put(local, f"{place.here}/{name}")
    assert storage.delete(f"{place.here}/a.root") is True
    assert names(storage, place.here) == ["b.root", f"c.root{PART_MARK}0123abcd"]


def test_only_an_empty_directory_is_removed(storage: Storage, place: Place, local: Path) -> None:
    storage.put(local, f"{place.here}/inner/a.root")
    assert [(one.name, one.is_directory) for one in storage.list(place.here)] == [("inner", True)]
    with pytest.raises(StorageError):
        storage.remove_directory(place.here)
    assert storage.stat(f"{place.here}/inner/a.root") == facts(CONTENT)
    storage.delete(f"{place.here}/inner/a.root")
    storage.remove_directory(f"{place.here}/inner")
    assert storage.list(place.here) == []


def test_names_with_signs_are_kept(storage: Storage, place: Place, local: Path) -> None:
    url = f"{place.here}/a=1/c-d_e.root"
    storage.put(local, url)
    assert storage.stat(url) == facts(CONTENT)
    assert names(storage, f"{place.here}/a=1") == ["c-d_e.root"]
    assert storage.delete(url) is True


def test_a_name_that_needs_quoting_is_read_and_not_written_by_webdav(
    grid: Grid, storage: Storage, place: Place, local: Path
) -> None:
    url = f"{place.here}/a#b.root"
    if not place.here.startswith("davs"):
        storage.put(local, url)
        assert storage.delete(url) is True
        return
    with pytest.raises(StorageError, match="quoting"):
        storage.put(local, url)
    by_root = f"{grid.prefix(grid.sites[0], 'root')}/{url.partition('://')[2].partition('/')[2]}"
    storage.put(local, by_root)
    assert storage.stat(url) == facts(CONTENT)
    assert names(storage, place.here) == ["a#b.root"]
    assert storage.delete(url) is True


def test_a_file_is_copied_to_another_site(storage: Storage, place: Place, local: Path) -> None:
    source, target = f"{place.here}/one.root", f"{place.there}/two.root"
    storage.put(local, source)
    storage.copy(source, target)
    assert storage.stat(target) == facts(CONTENT)
    assert names(storage, place.there) == ["two.root"]


def test_a_copy_of_nothing_leaves_nothing(storage: Storage, place: Place) -> None:
    with pytest.raises(StorageError) as refused:
        storage.copy(f"{place.here}/none.root", f"{place.there}/two.root")
    assert kind_of(refused) in {Kind.ABSENT, Kind.LOCAL}
    assert names(storage, place.there) == []


def test_a_file_is_copied_between_kinds_of_storage(
    storage: Storage, place: Place, local: Path, tmp_path: Path
) -> None:
    storage.copy(str(local), f"{place.here}/one.root")
    storage.copy(f"{place.here}/one.root", f"{tmp_path}/back/one.root")
    assert (tmp_path / "back/one.root").read_bytes() == CONTENT


def test_a_file_is_read_in_parts(storage: Storage, place: Place, local: Path) -> None:
    storage.put(local, f"{place.here}/one.root")
    with storage.open(f"{place.here}/one.root") as file:
        assert file.seek(-300, 2) == len(CONTENT) - 300
        assert file.read() == CONTENT[-300:]
        file.seek(100)
        assert file.read(10) == CONTENT[100:110]
        assert file.read(5) == CONTENT[110:115]


@pytest.mark.parametrize("scheme", ["davs", "root"])
@pytest.mark.parametrize("bad", ["", "not.a.token"])
def test_without_a_valid_token_everything_is_denied(
    grid: Grid, storage_with: StorageWith, local: Path, scheme: str, bad: str
) -> None:
    storage = storage_with(token=lambda: bad)
    url = f"{grid.prefix(grid.sites[0], scheme)}/store/unmerged/denied.root"
    for action in (storage.stat, storage.delete, lambda url: storage.put(local, url)):
        with pytest.raises(StorageError) as refused:
            action(url)
        assert kind_of(refused) is Kind.DENIED


def test_a_token_for_other_paths_is_denied(grid: Grid, storage_with: StorageWith, local: Path) -> None:
    other = grid.token("storage.modify:/store/data")
    url = f"{grid.prefix(grid.sites[0], 'davs')}/store/unmerged/denied.root"
    with pytest.raises(StorageError) as refused:
        storage_with(token=lambda: other).put(local, url)
    assert kind_of(refused) is Kind.DENIED


@pytest.mark.parametrize("scheme", ["davs", "root"])
def test_a_token_of_one_directory_is_enough_to_write_and_empty_it(
    grid: Grid, storage_with: StorageWith, local: Path, scheme: str
) -> None:
    own = f"/store/unmerged/contract-{uuid4().hex}"
    token = grid.token(f"storage.read:{own} storage.modify:{own}")
    storage = storage_with(token=lambda: token)
    url = f"{grid.prefix(grid.sites[0], scheme)}{own}/mg_000000_r0"
    storage.put(local, f"{url}/proc_000000.root")
    assert names(storage, url) == ["proc_000000.root"]
    assert storage.delete(f"{url}/proc_000000.root") is True
    storage.remove_directory(url)
    assert storage.list(f"{grid.prefix(grid.sites[0], scheme)}{own}") == []


def test_a_token_renewed_after_a_refusal_is_used(
    grid: Grid, storage_with: StorageWith, token: str, local: Path
) -> None:
    given = iter(["not.a.token"])
    storage = storage_with(token=lambda: next(given, token))
    url = f"{grid.prefix(grid.sites[0], 'davs')}/store/unmerged/renewed.root"
    storage.put(local, url)
    assert storage.delete(url) is True


@pytest.mark.parametrize("scheme", ["davs", "root"])
def test_a_storage_that_refuses_connections_is_down(storage: Storage, local: Path, scheme: str) -> None:
    with closed_port() as port, pytest.raises(StorageError) as refused:
        storage.put(local, f"{scheme}://localhost:{port}/store/unmerged/a.root")
    assert kind_of(refused) is Kind.DOWN


def test_a_storage_of_an_unknown_authority_is_not_trusted(
    grid: Grid, storage_with: StorageWith, local: Path
) -> None:
    storage = storage_with(ca_file="/etc/ssl/certs/ca-certificates.crt")
    with pytest.raises(StorageError, match="certificate") as refused:
        storage.stat(f"{grid.prefix(grid.sites[0], 'davs')}/store/unmerged/a.root")
    assert kind_of(refused) is Kind.DOWN
