"""Operations on run and lumi ranges, without expanding them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from sandbox.lumis import LumiRange, Ranges, merged
from sandbox.values import is_whole
from wms2_project.errors import InvalidInput

OrderKey = tuple[int | tuple[int, int, int], ...]

_CURE = "Give (run, first, last) as whole numbers from 0 up, the first not above the last"


def normalised(ranges: Sequence[LumiRange]) -> Ranges:
    """Return the same lumis, each once, in as few ranges as possible; raise InvalidInput for bad ranges."""
    if span(ranges) >= 0:
        return ranges if type(ranges) is tuple else tuple(ranges)
    if not all(_is_range(one) for one in ranges):
        raise InvalidInput(f"{str(ranges)[:80]} are not lumi ranges", cure=_CURE)
    return merged(ranges)


def _is_range(one: object) -> bool:
    return isinstance(one, Sequence) and len(one) == 3 and all(map(is_whole, one)) and one[1] <= one[2]


def span(ranges: Sequence[LumiRange]) -> int:
    """Return the number of lumis if the ranges are normalised and valid; -1 otherwise."""
    in_run, touched, lumis = -1, -1, 0
    try:
        for run, first, last in ranges:
            if first <= touched or first > last or run != in_run:
                if not (run > in_run and 0 <= first <= last):
                    return -1
                in_run = run
            touched = last + 1
            lumis += touched - first
        ok = type(lumis) is int and (not ranges or ranges[0][0] >= 0)
    except (TypeError, ValueError):
        return -1
    return lumis if ok else -1


def chunks(ranges: Ranges, first_lumis: int, lumis: int) -> Iterator[tuple[Ranges, int]]:
    """Yield the ranges cut into pieces of `lumis`, the first of `first_lumis`, with their sizes."""
    part: list[LumiRange] = []
    size = space = first_lumis
    for run, first, last in ranges:
        while first <= last:
            end = last if last - first < space else first + space - 1
            part.append((run, first, end))
            space -= end - first + 1
            first = end + 1
            if not space:
                yield tuple(part), size
                part, size, space = [], lumis, lumis
    if part:
        yield tuple(part), size - space


def intersect(left: Ranges, right: Ranges) -> Ranges:
    """Return the lumis in both."""
    common: list[LumiRange] = []
    i = j = 0
    while i < len(left) and j < len(right):
        run, first, last = left[i]
        other_run, low, high = right[j]
        if run == other_run and max(first, low) <= min(last, high):
            common.append((run, max(first, low), min(last, high)))
        if (run, last) <= (other_run, high):
            i += 1
        else:
            j += 1
    return tuple(common)


def subtract(left: Ranges, right: Ranges) -> Ranges:
    """Return the lumis of the left that are not in the right."""
    rest: list[LumiRange] = []
    j = 0
    for run, first, last in left:
        while j < len(right) and right[j][::2] < (run, first):
            j += 1
        k = j
        while k < len(right) and right[k][:2] <= (run, last):
            if right[k][1] > first:
                rest.append((run, first, right[k][1] - 1))
            first = right[k][2] + 1
            k += 1
        if first <= last:
            rest.append((run, first, last))
    return tuple(rest)


def order_key(ranges: Ranges) -> OrderKey:
    """Return a key that sorts like the lumis of the lowest run written out one by one.

    Of two lists that begin alike the shorter comes first. So, of two ranges with the same start, the last
    of its list comes first; otherwise the longer one does, because its next lumi is nearer.
    """
    run = ranges[0][0]
    own = [(first, last) for number, first, last in ranges if number == run]
    inner = [(first, 1, -last) for first, last in own[:-1]]
    return (run, *inner, (own[-1][0], 0, own[-1][1]))
