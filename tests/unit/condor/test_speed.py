"""Ratios of CPU time against the cheapest thing that handles the same bytes, alternating, best of 5.

Neither depends on what else the machine does. Times on the clock are what `./wms2 bench` measures (B3, B4).
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from condor.dagfile import dag_entries, write_dag
from condor.layout import GroupLayout
from condor.statusfile import read_status
from tests.unit.condor.builders import make_layout, make_node

SAMPLE = Path(__file__).parent / "samples" / "25.14-group-aborted.status"
NODES = 100_000


def seconds(work: Callable[[], object]) -> float:
    began = time.process_time()
    work()
    return time.process_time() - began


def big_status(path: Path, nodes: int) -> Path:
    head, record, *_, end = SAMPLE.read_text().split("]\n")[:-1]
    records = "]\n".join(record.replace('"landing"', f'"proc_{n:06d}"') for n in range(nodes))
    head = head.replace("NodesTotal = 7", f"NodesTotal = {nodes}").replace(
        "NodesDone = 1", f"NodesDone = {nodes}"
    )
    path.write_text(f"{head}]\n{records}]\n{end}]\n")
    return path


def test_parsing_a_status_file_costs_no_more_than_splitting_its_lines(tmp_path: Path) -> None:
    path = big_status(tmp_path / "group.dag.status", NODES)
    splitting, parsing = [], []
    for _ in range(5):
        splitting.append(seconds(lambda: path.read_text().splitlines()))
        parsing.append(seconds(lambda: read_status(path)))
    assert min(parsing) <= 2 * min(splitting)  # seen: 0.7; a walk over every node is far beyond


def test_looking_at_every_node_grows_with_their_number_only(tmp_path: Path) -> None:
    def look(path: Path) -> int:
        reading = read_status(path)
        return len(dict(reading.status.nodes)) if reading else 0

    small, large = big_status(tmp_path / "small", NODES // 10), big_status(tmp_path / "large", NODES)
    assert look(large) == NODES
    times = [(seconds(lambda: look(small)), seconds(lambda: look(large))) for _ in range(5)]
    assert min(t for _, t in times) <= 25 * min(t for t, _ in times)


def test_an_unchanged_status_file_is_not_read(tmp_path: Path) -> None:
    path = big_status(tmp_path / "group.dag.status", 10)
    first = read_status(path)
    assert first is not None
    times = path.stat()
    path.write_bytes(b"?" * times.st_size)
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))

    assert read_status(path, previous=first.stamp) is None


def test_writing_a_dag_costs_little_more_than_rendering_its_files(tmp_path: Path) -> None:
    groups = [
        GroupLayout(
            f"mg_{g:06d}", ("T1_US_FNAL", "T2_CH_CERN"), [make_node(g * 500 + n) for n in range(500)], b"{}"
        )
        for g in range(NODES // 500)
    ]
    layout = make_layout(groups=groups)
    content = b"".join(entry.content or b"" for entry in dag_entries(layout))
    lines, ours = [], []
    for turn in range(5):
        lines.append(seconds(lambda: b"\n".join(line.replace(b"@", b"$") for line in content.split(b"\n"))))
        ours.append(seconds(partial(write_dag, layout, tmp_path / f"dag{turn}")))
    assert min(ours) <= 5 * min(lines)  # one pass over the lines; seen: 1.2
