"""Event files and lumi ranges."""

from __future__ import annotations

import zlib
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lab.toy.eventfile import HEADER, Event, EventFileError, facts, read_events, write_events
from sandbox.lumis import Lumis, compress, expand, union

EVENTS = st.lists(
    st.builds(
        Event,
        run=st.integers(0, 2**32),
        lumi=st.integers(0, 200),
        event=st.integers(0, 2**64 - 1),
        payload=st.text("0123456789abcdef", max_size=30),
    ),
    max_size=30,
)
ON_DISK = settings(max_examples=50, suppress_health_check=[HealthCheck.function_scoped_fixture])


@ON_DISK
@given(events=EVENTS)
def test_written_files_are_read_and_measured_identically(tmp_path: Path, events: list[Event]) -> None:
    path = tmp_path / "file.root"
    written = write_events(path, events)

    assert list(read_events(path)) == events
    assert facts(path) == written
    assert written.size_bytes == path.stat().st_size
    assert int(written.adler32, 16) == zlib.adler32(path.read_bytes())
    assert expand(written.lumis) == {
        run: tuple(sorted({event.lumi for event in events if event.run == run}))
        for run in sorted({event.run for event in events})
    }


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "header"),
        (HEADER[:-5], "header"),
        (b"\x1f\x8b\x00garbage", "header"),
        (HEADER + b"1 1 1 ab", "line 2 is cut off"),
        (HEADER + b"1 1 1 ab\n1 1\n", "line 3 is not an event"),
        (HEADER + b"1 1 -1 ab\n", "line 2 is not an event"),
        (HEADER + b"1 1 1 XYZ\n", "line 2 is not an event"),
        (HEADER + b"1 1 1  ab\n", "line 2 is not an event"),
    ],
)
def test_truncation_and_garbage_are_named_by_line(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "file.root"
    path.write_bytes(content)

    with pytest.raises(EventFileError, match=message):
        list(read_events(path))


def test_an_interrupted_write_leaves_the_old_file_and_no_litter(tmp_path: Path) -> None:
    path = tmp_path / "file.root"
    write_events(path, [Event(1, 1, 1, "aa")])

    def broken() -> list[Event]:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_events(path, (event for _ in [0] for event in broken()))

    assert list(read_events(path)) == [Event(1, 1, 1, "aa")]
    assert [one.name for one in tmp_path.iterdir()] == ["file.root"]


def test_ranges_join_where_they_touch_or_overlap() -> None:
    parts: list[Lumis] = [{1: [[5, 9], [1, 2]]}, {1: [[3, 3], [8, 12]], 2: [[7, 7]]}, {3: []}]

    assert union(parts) == {1: [[1, 3], [5, 12]], 2: [[7, 7]]}
    assert compress({4: {3, 1, 2, 9}}) == {4: [[1, 3], [9, 9]]}
