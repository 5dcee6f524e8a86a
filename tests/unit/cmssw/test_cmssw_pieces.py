"""Division of a job's window into pieces that one cmsRun can process."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from sandbox.cmssw.pieces import ALL_EVENTS, Piece, split_window
from sandbox.lumis import Lumis
from sandbox.manifest import Generate, InputFile, Job
from sandbox.pilot import take

MASK: Lumis = {1: [[1, 2]]}


def window(
    name: str, events: int, first: int = 0, last: int | None = None, mask: Lumis | None = None
) -> InputFile:
    last = events - 1 if last is None else last
    return InputFile(f"/store/{name}.root", 1, "", events, first, last, mask)


def job(*files: InputFile, mask: Lumis | None = None, generate: Generate | None = None) -> Job:
    return Job(node="proc_000000", files=files, generate=generate, mask=mask, events=0)


def test_whole_files_are_read_at_once() -> None:
    (piece,) = split_window(job(window("a", 40), window("b", 60)))

    assert (piece.skip, piece.events, len(piece.files)) == (0, 100, 2)


def test_window_inside_a_file_is_skip_and_count() -> None:
    (piece,) = split_window(job(window("a", 40, 10, 29)))

    assert (piece.skip, piece.events) == (10, 20)


def test_window_over_the_end_of_a_file_stays_one_piece() -> None:
    (piece,) = split_window(job(window("a", 40, 30), window("b", 60, 0, 9)))

    assert (piece.skip, piece.events) == (30, 20)


def test_gap_between_files_needs_another_piece() -> None:
    pieces = split_window(job(window("a", 40, 0, 9), window("b", 60)))

    assert [(piece.skip, piece.events) for piece in pieces] == [(0, 10), (0, 60)]


def test_whole_files_of_one_mask_are_read_to_their_ends() -> None:
    (piece,) = split_window(job(window("a", 40), window("b", 60), mask=MASK))

    assert (piece.mask, piece.skip, piece.events) == (MASK, 0, ALL_EVENTS)


def test_file_with_its_own_mask_is_a_piece_of_its_own() -> None:
    other: Lumis = {1: [[3, 3]]}
    pieces = split_window(job(window("a", 40), window("b", 60, mask=other), mask=MASK))

    assert [piece.mask for piece in pieces] == [MASK, other]


def test_window_of_masked_files_counts_in_each_file() -> None:
    pieces = split_window(job(window("a", 40, 30), window("b", 60, 0, 9), mask=MASK))

    assert [(piece.skip, piece.events) for piece in pieces] == [(30, 10), (0, 10)]


def test_two_windows_of_one_file_are_two_pieces() -> None:
    pieces = split_window(job(window("a", 40, 0, 9), window("a", 40, 20, 39)))

    assert [(piece.skip, piece.events) for piece in pieces] == [(0, 10), (20, 20)]


def test_file_without_events_is_read_to_its_end() -> None:
    (piece,) = split_window(job(window("a", 0)))

    assert piece.events == ALL_EVENTS


def test_generated_window_that_begins_inside_a_lumi_ends_it_first() -> None:
    plan = Generate(
        first_event=108, last_event=125, first_lumi=5, events_per_lumi=10, run=1, numbering_from=101
    )

    pieces = split_window(job(generate=plan))

    found = [(piece.first_event, piece.events, piece.first_lumi) for piece in pieces]
    assert found == [(108, 3, 5), (111, 15, 6)]


def lumis_of(piece: Piece) -> list[tuple[int, int]]:
    """Return event number and lumi of each event, as cmsRun numbers them."""
    return [
        (piece.first_event + index, piece.first_lumi + index // piece.events_per_lumi)
        for index in range(piece.events)
    ]


@given(
    first=st.integers(1, 60),
    count=st.integers(1, 60),
    per_lumi=st.integers(1, 25),
    before=st.integers(0, 40),
    cuts=st.lists(st.integers(1, 20), max_size=4),
)
def test_generated_events_are_numbered_alike_however_they_are_cut(
    first: int, count: int, per_lumi: int, before: int, cuts: list[int]
) -> None:
    plan = Generate(first + before, first + before + count - 1, 3, per_lumi, 1, numbering_from=first)
    whole = job(generate=plan)
    offset, windows = 0, []
    for cut in [*cuts, count]:
        if offset < count:
            windows.append(take(whole, offset, cut))
            offset += cut

    found = [one for part in windows for piece in split_window(part) for one in lumis_of(piece)]

    events = range(plan.first_event, plan.last_event + 1)
    assert found == [(event, 3 + (event - first) // per_lumi) for event in events]


@given(
    sizes=st.lists(st.integers(0, 12), min_size=1, max_size=5), cuts=st.lists(st.integers(1, 9), max_size=6)
)
def test_files_are_read_once_however_they_are_cut(sizes: list[int], cuts: list[int]) -> None:
    whole = job(*(window(f"f{number}", size) for number, size in enumerate(sizes)))
    total, offset, found = sum(sizes), 0, []
    for cut in [*cuts, total + 1]:
        part = replace(take(whole, offset, cut))
        offset += cut
        for piece in split_window(part) if part.files else ():
            content = [(file.lfn, number) for file in piece.files for number in range(file.events)]
            chosen = content[piece.skip :]
            found += chosen if piece.events == ALL_EVENTS else chosen[: piece.events]

    assert found == [(f"/store/f{number}.root", n) for number, size in enumerate(sizes) for n in range(size)]
