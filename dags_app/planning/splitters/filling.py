"""Filling of jobs with lumis, file by file, shared by both lumi splitters."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import chain, repeat
from typing import Protocol

from dags_app.planning.lumis import chunks, normalised
from dags_app.planning.parameters import Parameters
from dags_app.planning.selection import Selection
from dags_app.planning.splitters.lumi_files import LumiFiles, by_run, read_lumi_files
from dags_app.planning.splitters.sharing import Shares, correct, shares_until, windows_once
from dags_app.planning.types import FileSpec, FileWindow, JobSpec
from sandbox.failure import LUMI_TOO_LONG
from sandbox.lumis import Ranges, count

# How much of a file jobs may take: lumis the current job may have in all, lumis of each further job, whether
# the file starts a job, and why a job with it cannot run ("" if it can).
Room = tuple[int, int, bool, str]


class Pace(Protocol):
    """The differences between the lumi splitters."""

    total: int | None  # how much may be taken in all, None without a limit

    def room(self, file: FileSpec, lumis: int, per_lumi: int, job: OpenJob) -> Room:
        """Return the room for a file of so many lumis and events per lumi, given the current job."""

    def price(self, per_lumi: int) -> int:
        """Return what a lumi of so many events takes off the total."""


class OpenJob:
    """A job that is being filled."""

    __slots__ = ("events", "failure", "lumis", "parts", "windows")

    def __init__(self, failure: str = "") -> None:
        self.windows: list[FileWindow] = []
        self.parts: list[Ranges] = []  # of each window
        self.lumis = 0
        self.events = 0
        self.failure = failure

    def add(self, window: FileWindow, part: Ranges, lumis: int, per_lumi: int) -> None:
        """Add a part of a file."""
        if self.windows and self.windows[-1] is window:
            self.parts[-1] += part
        else:
            self.windows.append(window)
            self.parts.append(part)
        self.lumis += lumis
        self.events += lumis * per_lumi

    def finished(self, shares: Shares | None) -> JobSpec:
        """Return the job; `shares` are given if lumis may be in several files."""
        windows = tuple(self.windows) if shares is None else windows_once(self.windows, self.parts, shares)
        mask = self.parts[0] if len(self.parts) == 1 else tuple(chain.from_iterable(self.parts))
        code = LUMI_TOO_LONG if self.failure else None
        return JobSpec(windows, windows[0].file.sites, self.events, None, mask, code, self.failure)


class _Budget:
    """Events, lumis or files that remain until an early stop."""

    def __init__(self, total: int | None) -> None:
        self.left = total

    @property
    def spent(self) -> bool:
        return self.left is not None and self.left <= 0

    def afford(self, ranges: Ranges, lumis: int, price: int) -> tuple[Ranges, int]:
        """Return as many of these lumis as may be taken; the last one may exceed the budget."""
        if self.left is not None and price:
            affordable = -(-self.left // price)
            if lumis > affordable:
                ranges, lumis = next(chunks(ranges, affordable, lumis))
            self.left -= lumis * price
        return ranges, lumis


def fill_jobs(
    places: Sequence[list[FileSpec]], parameters: Parameters, selection: Selection, pace: Pace
) -> Iterator[JobSpec]:
    """Yield jobs of the selected lumis; a job never has files of different places."""
    budget = _Budget(pace.total)
    for files, chosen in _sequences(places, parameters, selection):
        shares: Shares | None = {} if files.tangled else None
        if files.tangled and parameters.apply_lumi_correction:
            files, shares = correct(files)
        jobs: Iterable[OpenJob] = _walk(files, chosen, pace, budget, parameters.split_on_run)
        if shares and pace.total is not None:
            jobs = every = list(jobs)
            if budget.spent:
                end = every[-1]
                shares = shares_until(shares, files.files.index(end.windows[-1].file), end.parts[-1][-1])
        for job in jobs:
            yield job.finished(shares)
        if budget.spent:
            return


def _sequences(
    places: Sequence[list[FileSpec]], parameters: Parameters, selection: Selection
) -> Iterator[tuple[LumiFiles, Selection]]:
    """Yield the files of each place with what is selected of them; with `gather_runs` run by run."""
    for place in places:
        if not parameters.gather_runs:
            yield read_lumi_files(place, selection), selection
            continue
        holding: dict[int, list[FileSpec]] = {}
        for file in place:
            for run in {run for run, _, _ in normalised(file.lumis)}:
                holding.setdefault(run, []).append(file)
        for run in sorted(filter(selection.allows_run, holding)):
            chosen = selection.of_run(run)
            found = read_lumi_files(holding[run], chosen)
            yield replace(found, wanted=map(_of_run, repeat(run), found.wanted)), chosen


def _of_run(run: int, wanted: Ranges) -> Ranges:
    """Return the lumis of the run; the mask of a file is the result of an earlier selection of all runs."""
    only = bool(wanted) and wanted[0][0] == wanted[-1][0] == run
    return wanted if only else tuple(one for one in wanted if one[0] == run)


def _walk(
    files: LumiFiles, selection: Selection, pace: Pace, budget: _Budget, split_on_run: bool
) -> Iterator[OpenJob]:
    """Yield every job of one place as soon as it is full."""
    job, in_run, stop, limited = OpenJob(), -1, True, budget.left is not None
    room = pace.room
    for file, own, lumis, wanted in zip(files.files, files.own, files.lumis, files.wanted, strict=True):
        window, per_lumi = FileWindow(file), round(file.events / lumis)
        capacity, fresh, starts, failure = room(file, lumis, per_lumi, job)
        plain = wanted is own and own[0][0] == own[-1][0] == in_run and not (stop or starts or limited)
        if plain and job.lumis + lumis <= capacity:  # usual case: the whole file fits
            job.windows.append(window)
            job.parts.append(own)
            job.lumis += lumis
            job.events += lumis * per_lumi
            continue
        stop = stop or starts
        simple = wanted and own[0][0] == own[-1][0]
        for run, ranges in ((own[0][0], wanted),) if simple else by_run(own, wanted, selection):
            if split_on_run and run != in_run:
                stop = True  # even if nothing of the run is selected
            if not ranges or (limited and budget.spent):
                continue
            taken = lumis if ranges is own else count(ranges)
            if limited:
                ranges, taken = budget.afford(ranges, taken, pace.price(per_lumi))
            if stop or job.lumis >= capacity:
                if job.lumis:
                    yield job
                job, capacity, stop = OpenJob(failure), fresh, False
            in_run, space = run, capacity - job.lumis
            if taken <= space:
                job.add(window, ranges, taken, per_lumi)
                continue
            for part, number in chunks(ranges, space, fresh):
                if job.lumis >= capacity:
                    yield job
                    job, capacity = OpenJob(failure), fresh
                job.add(window, part, number, per_lumi)
        if limited and budget.spent:
            break
    if job.lumis:
        yield job
