"""Large groups are merged in batches, then the batches are merged: the result is that of one merge."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import uproot

from rootfiles.generate import Generation, generate
from rootfiles.skim import Selection
from sandbox import merge
from sandbox.filefacts import checksum
from sandbox.merge import Part, batches
from sandbox.report import NodeReport, Output, write_report
from tests.job_world import DATASET, SITE, WORKFLOW

if TYPE_CHECKING:
    from tests.job_world import World

UNMERGED = f"/store/unmerged/toy/{WORKFLOW}/mg_000000_r0"
MERGED = "/store/data/toy/00000000000000000000000000000000.root"


def part(number: int, size: int = 1) -> Part:
    return Part(f"proc_{number:06d}", Output("/A/B/C", f"/store/{number}.root", size, "", 0, {}))


@pytest.mark.parametrize(
    ("sizes", "expected"),
    [
        ([1, 1], [2]),
        ([1] * 3, [3]),
        ([1] * 7, [3, 3, 1]),
        ([60, 60, 60], [1, 1, 1]),
        ([200, 10, 10], [1, 2]),
        ([50, 50, 1], [2, 1]),
    ],
)
def test_batches_hold_as_many_files_and_bytes_as_one_merge_reads(
    sizes: list[int], expected: list[int]
) -> None:
    parts = [part(number, size) for number, size in enumerate(sizes)]
    found = list(batches(parts, most_files=3, most_bytes=100))

    assert [len(batch) for batch in found] == expected
    assert [one for batch in found for one in batch] == parts


def test_a_merge_reads_two_hundred_files_at_most() -> None:
    assert [len(batch) for batch in batches([part(number) for number in range(401)])] == [200, 200, 1]


def finish_job(world: World, node: str, first: int) -> None:
    """Plan a job that generates two events, put its ROOT file on storage and write its report."""
    plan = {"first_event": first, "last_event": first + 1, "first_lumi": 1, "events_per_lumi": 10, "run": 1}
    plan["numbering_from"] = 1
    world.jobs[node] = {"files": [], "generate": plan, "mask": None, "events": 2}
    lfn = f"{UNMERGED}/{node}.root"
    path = Path(f"{world.storage}{lfn}")
    path.parent.mkdir(parents=True, exist_ok=True)
    made = generate(Generation(1, first, first + 1, 1, 10, 1), [str(path)], Selection())
    lumis = {int(run): ranges for run, ranges in made.sources[0].lumis().items()}
    output = Output(DATASET, lfn, *checksum(path), 2, lumis)
    zeros = {"started_at": 0.0, "wall_time_sec": 1.0, "cpu_time_sec": 1.0, "peak_rss_mb": 1}
    report = NodeReport(
        node, "mg_000000", "processing", SITE, 0, 0, "", **zeros, events_read=2, events_written=2,
        outputs=(output,),
    )  # fmt: skip
    write_report(world.reports / f"{node}.report.json", report)


def test_root_files_of_several_batches_are_merged_with_every_event_once(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.forked, world.payload, jobs = True, {"kind": "root-demo"}, 12
    monkeypatch.setattr(merge, "batches", lambda parts: batches(parts, most_files=5))
    world.reports.mkdir(parents=True)
    for number in range(jobs):
        finish_job(world, f"proc_{number:06d}", 1 + 2 * number)
    world.plan()

    assert world.run("merge") == 0, world.report("merge")["error"]
    with uproot.open({f"{world.storage}{MERGED}": "Events"}) as tree:
        assert list(tree["event"].array(library="np")) == list(range(1, 2 * jobs + 1))
    left = [path.name for path in (world.root / "scratch" / "merge" / "work").glob("*.root")]
    assert left == ["merged.0.root"], "the files of the batches are removed"


def test_batches_give_the_bytes_of_one_merge(small_group: World, monkeypatch: pytest.MonkeyPatch) -> None:
    small_group.plan()
    for node in small_group.jobs:
        small_group.run(node)
    small_group.run("merge")
    once = Path(f"{small_group.storage}{MERGED}").read_bytes()
    real = merge.batches
    monkeypatch.setattr(merge, "batches", lambda parts: real(parts, most_files=2))
    small_group.run("merge")

    assert Path(f"{small_group.storage}{MERGED}").read_bytes() == once
