"""The log file of a group: its content, and limits against hostile jobs."""

from __future__ import annotations

import tarfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from sandbox.claims import check_group_manifest
from sandbox.jsonfile import ClaimRefused
from sandbox.logs import MAX_FILE_BYTES, OMITTED, pack
from sandbox.manifest import read_group_manifest, read_jobs

if TYPE_CHECKING:
    from tests.job_world import World

LOG = {"dataset": "/Toy/Run2026-Test-v1/LOG", "lfn": "/store/data/toy/log/0123.tar.gz"}


def run_group(world: World) -> None:
    world.plan()
    for node in [*world.jobs, "merge", "cleanup"]:
        status = world.run(node)
        (world.group / f"{node}.out").write_text(f"output of {node}\n")
        (world.group / f"{node}.err").write_text("")
        assert world.post(node, status) == 0, world.report(node)["error"]


def members(path: Path) -> dict[str, bytes]:
    with tarfile.open(path) as archive:
        return {one.name: archive.extractfile(one).read() for one in archive}  # type: ignore[union-attr]


def test_cleanup_packs_reports_and_output_of_all_jobs(small_group: World) -> None:
    small_group.log = LOG
    run_group(small_group)

    found = members(Path(f"{small_group.storage}{LOG['lfn']}"))
    nodes = [*small_group.jobs, "merge"]
    assert sorted(found) == sorted(
        f"{node}.{kind}" for node in nodes for kind in ("report.json", "fjr.xml", "out", "err")
    )
    assert found["proc_000001.out"] == b"output of proc_000001\n"
    log = read_group_manifest(small_group.group / "merge_output.json").log
    assert log is not None
    assert (log.dataset, log.lfn, log.events, log.parents) == (LOG["dataset"], LOG["lfn"], 0, ())
    assert log.size_bytes == Path(f"{small_group.storage}{LOG['lfn']}").stat().st_size


def test_a_repeated_cleanup_stores_the_same_bytes(small_group: World) -> None:
    small_group.log = LOG
    run_group(small_group)
    stored = Path(f"{small_group.storage}{LOG['lfn']}")
    before = stored.read_bytes()

    assert small_group.run("cleanup") == 0
    assert stored.read_bytes() == before


def test_without_a_log_dataset_nothing_is_packed(small_group: World) -> None:
    run_group(small_group)

    assert read_group_manifest(small_group.group / "merge_output.json").log is None
    assert not (small_group.reports / "merge.out").exists()


@pytest.mark.parametrize("planned", [None, {**LOG, "lfn": "/store/data/toy/log/other.tar.gz"}])
def test_a_manifest_with_another_log_than_planned_is_refused(
    small_group: World, planned: dict[str, str] | None
) -> None:
    small_group.log = LOG
    run_group(small_group)
    manifest = read_group_manifest(small_group.group / "merge_output.json")
    small_group.log = planned
    small_group.plan()

    with pytest.raises(ClaimRefused, match="log"):
        check_group_manifest(manifest, read_jobs(small_group.group / "jobs.json"))


def test_links_pipes_and_missing_files_are_left_out_and_large_ones_cut(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("secret")
    (tmp_path / "link.out").symlink_to(tmp_path / "secret")
    (tmp_path / "directory.out").mkdir()
    with open(tmp_path / "large.out", "wb") as large:
        large.truncate(MAX_FILE_BYTES + 7)
    (tmp_path / "small.out").write_text("small")
    names = ["link.out", "directory.out", "missing.out", "large.out", "small.out"]
    pack(tmp_path, names, tmp_path / "logs.tar.gz")

    found = members(tmp_path / "logs.tar.gz")
    assert sorted(found) == ["large.out", OMITTED, "small.out"]
    assert len(found["large.out"]) == MAX_FILE_BYTES
    lines = found[OMITTED].decode().splitlines()
    assert [line.partition(":")[0] for line in lines] == ["link.out", "directory.out", "large.out"]
    assert lines[2].endswith(f"7 of {MAX_FILE_BYTES + 7} bytes")


def test_all_files_together_stay_within_the_limit(tmp_path: Path) -> None:
    for number in range(3):
        (tmp_path / f"{number}.out").write_text("x" * 100)
    pack(tmp_path, ["0.out", "1.out", "2.out"], tmp_path / "logs.tar.gz", most_bytes=150)

    found = members(tmp_path / "logs.tar.gz")
    assert [len(found[f"{number}.out"]) for number in range(3)] == [100, 50, 0]
