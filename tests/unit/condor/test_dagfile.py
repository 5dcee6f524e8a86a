"""The directory of a DAG: complete or not there, the same bytes for the same layout."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from condor import dagtext
from condor.dagfile import dag_entries, read_assets, submit_lock, write_dag
from condor.layout import DagmanSettings, GroupLayout, NodeLayout, Retries
from condor.types import RenderError
from tests.unit.condor.factories import ASSETS, make_group, make_layout
from wms2_project.errors import Conflict, InvalidInput, TransientError

GOLDEN = Path(__file__).parent / "golden"


def tree(directory: Path) -> dict[str, tuple[int, bytes]]:
    return {
        str(path.relative_to(directory)): (path.stat().st_mode, path.read_bytes() if path.is_file() else b"")
        for path in sorted(directory.rglob("*"))
    }


@pytest.mark.parametrize("name", ["workflow.dag", "dagman.config", "mg_000000/group.dag"])
def test_dag_file_is_the_golden_one(tmp_path: Path, name: str) -> None:
    write_dag(make_layout(), tmp_path / "dag")
    assert (tmp_path / "dag" / name).read_text() == (GOLDEN / Path(name).name).read_text()


def test_directory_holds_everything_a_group_needs(tmp_path: Path) -> None:
    written = write_dag(make_layout(groups=3), tmp_path / "dag")

    found = set(tree(tmp_path / "dag"))
    assert written.dag_file == tmp_path / "dag" / "workflow.dag"
    assert (written.groups, written.kept) == (3, False)
    assert {"proc.sub", "landing.sub", "merge.sub", "cleanup.sub", "back", "priority.inc", "run.sh"} <= found
    assert {f"mg_00000{n}/{name}" for n in range(3) for name in ("group.dag", "jobs.json")} <= found


def test_modes_do_not_depend_on_the_umask(tmp_path: Path) -> None:
    before = os.umask(0o077)
    try:
        write_dag(make_layout(), tmp_path / "dag")
    finally:
        os.umask(before)
    assert (tmp_path / "dag" / "run.sh").stat().st_mode & 0o777 == 0o755
    assert (tmp_path / "dag" / "workflow.dag").stat().st_mode & 0o777 == 0o644


def test_same_layout_gives_the_same_bytes(tmp_path: Path) -> None:
    first = write_dag(make_layout(), tmp_path / "one")
    second = write_dag(make_layout(assets=tuple(reversed(ASSETS))), tmp_path / "two")
    assert tree(tmp_path / "one") == tree(tmp_path / "two")
    assert first.digest == second.digest


def test_groups_may_come_from_a_generator(tmp_path: Path) -> None:
    lazy = write_dag(make_layout(groups=(make_group(n) for n in range(2))), tmp_path / "lazy")
    assert lazy.digest == write_dag(make_layout(), tmp_path / "list").digest


def test_directory_with_the_same_content_is_kept(tmp_path: Path) -> None:
    write_dag(make_layout(), tmp_path / "dag")
    (tmp_path / "dag" / "workflow.dag.rescue001").write_text("DONE mg_000000\n")

    again = write_dag(make_layout(), tmp_path / "dag")

    assert again.kept
    assert (tmp_path / "dag" / "workflow.dag.rescue001").exists()


def test_other_content_replaces_a_directory_that_was_never_submitted(tmp_path: Path) -> None:
    write_dag(make_layout(groups=2), tmp_path / "dag")
    write_dag(make_layout(groups=1), tmp_path / "dag")
    assert not (tmp_path / "dag" / "mg_000001").exists()
    assert [path.name for path in tmp_path.iterdir()] == ["dag"]


def test_other_content_never_replaces_a_submitted_directory(tmp_path: Path) -> None:
    write_dag(make_layout(groups=2), tmp_path / "dag")
    (tmp_path / "dag" / "workflow.dag.condor.sub").write_text("")
    before = tree(tmp_path / "dag")

    with pytest.raises(Conflict, match="another DAG"):
        write_dag(make_layout(groups=1), tmp_path / "dag")

    assert tree(tmp_path / "dag") == before


def test_a_directory_of_another_owner_is_not_changed(tmp_path: Path) -> None:
    (tmp_path / "dag").mkdir()
    (tmp_path / "dag" / "thesis.tex").write_text("precious")
    with pytest.raises(Conflict):
        write_dag(make_layout(), tmp_path / "dag")
    assert (tmp_path / "dag" / "thesis.tex").exists()


@pytest.mark.parametrize("failing_call", [0, 1, 5, -2, -1])
def test_a_full_disk_leaves_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failing_call: int
) -> None:
    files = sum(1 for entry in dag_entries(make_layout()) if entry.content is not None) + 1
    calls = iter(range(files))
    real_write = os.write

    def write(handle: int, data: bytes) -> int:
        if next(calls) == failing_call % files:
            raise OSError(errno.ENOSPC, "No space left on device")
        return real_write(handle, data)

    monkeypatch.setattr(os, "write", write)
    with pytest.raises(TransientError, match="No space left"):
        write_dag(make_layout(), tmp_path / "dag")
    assert list(tmp_path.iterdir()) == []


def test_leftovers_of_a_killed_writer_are_removed(tmp_path: Path) -> None:
    half = tmp_path / "dag.new" / "mg_000007"
    half.mkdir(parents=True)
    (half / "group.dag").write_text("JOB half")
    write_dag(make_layout(), tmp_path / "dag")
    assert not (tmp_path / "dag" / "mg_000007").exists()
    assert not (tmp_path / "dag.new").exists()


def test_short_writes_are_continued(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real_write = os.write
    monkeypatch.setattr(os, "write", lambda handle, data: real_write(handle, bytes(data[:7])))
    write_dag(make_layout(), tmp_path / "dag")
    assert (tmp_path / "dag" / "workflow.dag").read_text() == (GOLDEN / "workflow.dag").read_text()


def test_two_writers_of_one_directory_do_not_mix(tmp_path: Path) -> None:
    outer = make_layout(groups=1)

    def groups() -> Iterator[GroupLayout]:
        yield make_group(0)
        with pytest.raises(TransientError, match="another process is writing"):
            write_dag(outer, tmp_path / "dag")

    write_dag(make_layout(groups=groups()), tmp_path / "dag")
    assert (tmp_path / "dag" / "layout.sha256").exists()


def test_relative_directory_is_refused() -> None:
    with pytest.raises(InvalidInput, match="absolute"):
        write_dag(make_layout(), Path("dag"))


def test_empty_dag_and_repeated_group_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="at least one group"):
        write_dag(make_layout(groups=[]), tmp_path / "dag")
    with pytest.raises(InvalidInput, match="twice"):
        write_dag(make_layout(groups=[make_group(0), make_group(0)]), tmp_path / "dag")
    assert list(tmp_path.iterdir()) == []


def test_many_files_are_written_like_few(tmp_path: Path) -> None:
    written = write_dag(make_layout(groups=80, nodes=1), tmp_path / "dag")
    assert written.groups == 80
    assert len(list((tmp_path / "dag").glob("mg_*/group.dag"))) == 80


def test_a_node_that_slipped_past_the_checks_is_not_written(tmp_path: Path) -> None:
    group = make_group(0)
    evil = object.__new__(NodeLayout)
    for field, value in {"name": "proc_000001", "memory_mb": '1"\nJOB x /bin/sh', "cpus": 1}.items():
        object.__setattr__(evil, field, value)
    object.__setattr__(evil, "disk_kb", 1)
    object.__setattr__(evil, "wall_minutes", 1)
    forged = object.__new__(GroupLayout)
    result = {"name": group.name, "sites": group.sites, "nodes": [evil], "manifest": b"", "merge": None}
    for field, value in result.items():
        object.__setattr__(forged, field, value)
    with pytest.raises(RenderError, match=r"mg_000000/group\.dag"):
        write_dag(make_layout(groups=[forged]), tmp_path / "dag")


def test_without_retries_or_cooloff_the_lines_are_absent() -> None:
    layout = make_layout(retries=Retries(landing=0, processing=0, merge=0, cleanup=0, cooloff_sec=0))
    text = dagtext.render_group(layout, make_group(0))
    assert "RETRY proc" not in text
    assert "pre.sh" not in text


def test_settings_reach_the_configuration() -> None:
    text = dagtext.render_config(DagmanSettings(queue_update_sec=2, max_idle_jobs=77))
    assert "DAGMAN_QUEUE_UPDATE_INTERVAL = 2\n" in text
    assert "DAGMAN_MAX_JOBS_IDLE = 77\n" in text


def test_every_node_sets_the_same_variables() -> None:
    lines = dagtext.render_group(make_layout(), make_group(0, nodes=5)).split("\n")
    keys = {
        tuple(word.partition("=")[0] for word in line.split()[2:])
        for line in lines
        if line.startswith("VARS")
    }
    assert keys == {("NODE", "RETRY", "MEM", "CPUS", "DISK", "WALL", "SITES")}


def test_submit_lock_admits_one_at_a_time(tmp_path: Path) -> None:
    with submit_lock(tmp_path), pytest.raises(TransientError, match="another process"), submit_lock(tmp_path):
        pass
    with submit_lock(tmp_path):
        pass


def test_assets_are_read_with_their_modes(tmp_path: Path) -> None:
    write_dag(make_layout(), tmp_path / "dag")
    (tmp_path / "dag" / "scripts" / "__pycache__").mkdir()
    (tmp_path / "dag" / "scripts" / "__pycache__" / "x.pyc").write_bytes(b"")
    assets = {asset.path: asset for asset in read_assets(tmp_path / "dag" / "scripts")}
    assert set(assets) == {"elect_site.sh", "post.sh"}
    assert assets["post.sh"].executable


def test_a_group_of_runners_has_no_landing_merge_or_cleanup(tmp_path: Path) -> None:
    layout = make_layout(groups=1, nodes=3, pull=True)
    written = write_dag(layout, tmp_path / "dag")
    text = (tmp_path / "dag" / "mg_000000" / "group.dag").read_text()
    jobs = [line.split()[1:] for line in text.splitlines() if line.startswith("JOB ")]
    assert jobs == [[f"proc_00000{number}", "../runner.sub"] for number in range(3)]
    assert "PARENT" not in text
    assert (tmp_path / "dag" / "mg_000000" / "jobs.json").stat().st_mode & 0o777 == 0o600
    assert sorted(path.name for path in (tmp_path / "dag").glob("*.sub")) == ["runner.sub"]
    assert write_dag(layout, tmp_path / "dag").digest == written.digest
