"""Merged files: order kept, every event once, bounded memory; and inspection of files."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import awkward as ak
import numpy as np
import pytest
import uproot

from rootfiles.errors import RootFileError
from rootfiles.generate import Generation, generate
from rootfiles.inspect import inspect
from rootfiles.merge import merge
from rootfiles.skim import Selection
from tests.unit.rootfiles.conftest import MakeFile, branches, damaged, numbers, write_trees

ROOT = Path(__file__).resolve().parents[3]


def test_files_are_merged_in_their_order_with_every_event_once(make_file: MakeFile, tmp_path: Path) -> None:
    sources = [make_file(f"{n}.root", 30, first=1 + 30 * n) for n in (2, 0, 1)]
    target = str(tmp_path / "merged.root")
    counted = merge(sources, target)

    assert numbers(target) == [*range(61, 91), *range(1, 61)]
    assert [one.events for one in counted] == [30, 30, 30]
    assert counted[1].lumi_events == {"1": [[1, 3, 10]]}
    assert inspect(target).lumi_events == {"1": [[1, 9, 10]]}


COMPRESSIONS = {"zlib": uproot.ZLIB(1), "lz4": uproot.LZ4(4), "zstd": uproot.ZSTD(5), "none": None}


def write_events(path: Path, arrays: dict[str, Any], compression: Any) -> str:
    with uproot.recreate(path, compression=compression) as file:
        file.mktree("Events", {name: array.dtype for name, array in arrays.items()}).extend(arrays)
    return str(path)


def columns(first: int, events: int) -> dict[str, Any]:
    """Return branches that compress well, hardly and not at all."""
    number = np.arange(first, first + events)
    noise = np.random.default_rng(first).bytes(8 * events)
    return {
        "run": np.ones(events, np.uint32),
        "luminosityBlock": (number // 1000).astype(np.uint32),
        "event": number.astype(np.uint64),
        "mass": np.sin(number).astype(np.float32),
        "noise": np.frombuffer(noise, np.int64),
    }


@pytest.mark.parametrize("name", COMPRESSIONS)
def test_large_baskets_are_copied_and_hold_the_same_numbers(tmp_path: Path, name: str) -> None:
    sizes = [20_000, 300, 700, 30_000]
    starts = [sum(sizes[:n]) for n in range(len(sizes))]
    parts = [columns(start, size) for start, size in zip(starts, sizes, strict=True)]
    sources = [write_events(tmp_path / f"{n}.root", part, COMPRESSIONS[name]) for n, part in enumerate(parts)]
    target = str(tmp_path / "merged.root")
    counted = merge(sources, target)

    assert [one.events for one in counted] == sizes
    found = branches(target)
    for branch in parts[0]:
        expected = np.concatenate([part[branch] for part in parts])
        assert found[branch].tobytes() == expected.tobytes()
    assert inspect(target).lumi_events == {"1": [[0, 50, 1000]]}
    with uproot.open({target: "Events"}) as tree:
        assert tree["event"].entry_offsets == [0, 20_000, 21_000, 51_000], "the small ones share a basket"


def test_every_tree_is_merged(tmp_path: Path) -> None:
    sources = [
        write_trees(tmp_path / f"{n}.root", {"Events": {"x": [n, n]}, "Runs": {"weight": [1.5 * n]}})
        for n in (1, 2)
    ]
    target = str(tmp_path / "merged.root")
    counted = merge(sources, target)

    facts = inspect(target)
    assert facts.trees == {"Events": 4, "Runs": 2}
    assert (facts.events, facts.lumi_events) == (4, None)
    assert [(one.events, one.lumi_events) for one in counted] == [(2, None), (2, None)]


def test_a_large_merge_stays_within_bounded_memory(tmp_path: Path) -> None:
    """Ten times the data needs about the same memory."""
    source = str(tmp_path / "a.root")
    generate(Generation(1, 1, 100_000, 1, 1000, 1), [source], Selection())
    peaks = []
    for times in (3, 30):
        task = {"sources": [source] * times, "target": str(tmp_path / "merged.root")}
        peaks.append(run_in_process("merge", task, tmp_path)["peak_mb"])

    assert inspect(str(tmp_path / "merged.root")).events == 3_000_000
    assert peaks[1] < 1.5 * peaks[0]


def run_in_process(action: str, task: dict[str, Any], place: Path) -> dict[str, Any]:
    (place / "task.json").write_text(json.dumps(task))
    program = (
        "import resource, sys; from rootfiles.__main__ import main; code = main(sys.argv[1:]);"
        " print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss); sys.exit(code)"
    )
    command = [sys.executable, "-c", program, action, str(place / "task.json"), str(place / "result.json")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    result: dict[str, Any] = json.loads((place / "result.json").read_text())
    return {**result, "status": done.returncode, "peak_mb": int(done.stdout.split()[-1]) // 1024}


@pytest.mark.parametrize("how", ["empty", "not-root", "truncated", "unreadable"])
def test_a_broken_input_is_named_and_nothing_is_left(make_file: MakeFile, tmp_path: Path, how: str) -> None:
    good, bad = make_file("a.root"), damaged(make_file("b.root"), how)
    with pytest.raises(RootFileError) as refused:
        merge([good, bad], str(tmp_path / "merged.root"))

    assert (refused.value.kind, refused.value.source) == (how, bad)
    assert {path.name for path in tmp_path.iterdir()} == {"a.root", "b.root"}
    with pytest.raises(RootFileError) as seen:
        inspect(bad)
    assert seen.value.kind == how


def test_inputs_with_other_branches_or_trees_are_refused(make_file: MakeFile, tmp_path: Path) -> None:
    first = write_trees(tmp_path / "a.root", {"Events": {"x": np.arange(3)}})
    others = {
        "branches-differ": write_trees(tmp_path / "b.root", {"Events": {"x": np.arange(3.0)}}),
        "missing-tree": write_trees(tmp_path / "c.root", {"Events": {"x": np.arange(3)}, "Runs": {"y": [1]}}),
    }
    for kind, path in others.items():
        with pytest.raises(RootFileError) as refused:
            merge([first, path], str(tmp_path / "merged.root"))
        assert (refused.value.kind, refused.value.source) == (kind, path)


def test_unmergeable_content_is_named_with_the_cure(tmp_path: Path) -> None:
    histogram, jagged = tmp_path / "h.root", tmp_path / "j.root"
    with uproot.recreate(histogram) as file:
        file.mktree("Events", {"x": np.int32}).extend({"x": np.arange(3, dtype=np.int32)})
        file["mass"] = np.histogram(np.arange(10))
    with uproot.recreate(jagged) as file:
        file.mktree("Events", {"x": "var * float32"}).extend({"x": ak.Array([[1.0], [], [2.0, 3.0]])})
    for path in (histogram, jagged):
        with pytest.raises(RootFileError, match="hadd") as refused:
            merge([str(path)], str(tmp_path / "merged.root"))
        assert (refused.value.kind, refused.value.source) == ("unsupported", str(path))


def test_a_file_without_the_tree_of_events_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RootFileError) as refused:
        inspect(write_trees(tmp_path / "a.root", {"Other": {"x": [1]}}))
    assert refused.value.kind == "missing-tree"


def test_an_open_file_is_inspected_like_a_path(make_file: MakeFile) -> None:
    path = make_file("a.root")
    with open(path, "rb") as handle:
        assert inspect(handle) == inspect(path)


def test_the_command_line_answers_with_a_result_or_a_typed_error(make_file: MakeFile, tmp_path: Path) -> None:
    good = run_in_process("inspect", {"sources": [make_file("a.root")]}, tmp_path)
    broken = damaged(make_file("b.root"), "truncated")
    bad = run_in_process("inspect", {"sources": [broken]}, tmp_path)
    incomplete = run_in_process("inspect", {}, tmp_path)

    counted = {"events": 100, "lumi_events": {"1": [[1, 10, 10]]}, "trees": {"Events": 100}}
    assert (good["status"], good["sources"]) == (0, [counted])
    assert (bad["status"], bad["error"]["kind"]) == (1, "truncated")
    assert bad["error"]["source"] == broken
    assert (incomplete["status"], incomplete["error"]["kind"]) == (1, "bad-task")
