"""A dataset for the splitting benchmarks: files of 20 lumis each, generated deterministically."""

from __future__ import annotations

LUMIS_PER_FILE = 20
EVENTS_PER_FILE = 10_000
FILES_PER_RUN = 250
FIRST_RUN = 380_000
STRETCH = 5  # lumis in a row; then one is missing, as in real data
STRETCHES = LUMIS_PER_FILE // STRETCH
PLACES = (("T1_US_FNAL_Disk",), ("T2_CH_CERN",), ("T1_US_FNAL_Disk", "T2_CH_CERN"))
GOOD_STRETCHES = 10  # of a run, in the mask
BAD_LUMIS = 30  # after each of them

LumiRange = tuple[int, int, int]


def lfn_of(number: int) -> str:
    """Return the name of a file."""
    return f"/store/data/Run2031A/Muons/RAW/v1/000/{number:08d}.root"


def ranges_of(number: int) -> tuple[LumiRange, ...]:
    """Return run, first and last lumi of each range in a file. No lumi is in two files."""
    run = FIRST_RUN + number // FILES_PER_RUN
    first = 1 + (number % FILES_PER_RUN) * STRETCHES * (STRETCH + 1)
    starts = range(first, first + STRETCHES * (STRETCH + 1), STRETCH + 1)
    return tuple((run, start, start + STRETCH - 1) for start in starts)


def lumis_of(number: int) -> list[tuple[int, int]]:
    """Return the same lumis one by one."""
    return [(run, lumi) for run, first, last in ranges_of(number) for lumi in range(first, last + 1)]


def places_of(number: int) -> tuple[str, ...]:
    """Return the sites of a file: the files of a block of a thousand are at the same sites."""
    return PLACES[number // 1000 % len(PLACES)]


def mask_of(files: int) -> dict[str, list[list[int]]]:
    """Return a certification mask for this number of files, as in requests: most lumis of every run."""
    last = FILES_PER_RUN * STRETCHES * (STRETCH + 1)
    step = last // GOOD_STRETCHES
    good = [[first, first + step - 1 - BAD_LUMIS] for first in range(1, last, step)]
    runs = range(FIRST_RUN, FIRST_RUN + -(-files // FILES_PER_RUN))
    return {str(run): good for run in runs}
