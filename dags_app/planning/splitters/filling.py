"""Filling jobs with lumis, file by file and range by range: the walk both lumi splitters share."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import Protocol

from dags_app.planning.lumis import Ranges, count
from dags_app.planning.parameters import Parameters
from dags_app.planning.selection import Selection
from dags_app.planning.splitters.lumi_files import LumiFiles, by_run, read_lumi_files
from dags_app.planning.splitters.sharing import Shares, correct, shares_until, windows_once
from dags_app.planning.types import FileSpec, FileWindow, JobSpec, LumiRange

TOO_LONG = 99305  # CMS: the job would run longer than any site lets it

# How much of a file jobs may take: lumis the job under way may hold in all, lumis each further job may
# hold, whether the file starts a job, and why a job with it cannot run ("" if it can).
Room = tuple[int, int, bool, str]


class Pace(Protocol):
    """What distinguishes the lumi splitters."""

    total: int | None  # how much may be taken in all, None without a limit

    def room(self, file: FileSpec, lumis: int, per_lumi: int, job: OpenJob) -> Room:
        """Room for a file of so many lumis and events per lumi, given the job under way."""

    def price(self, per_lumi: int) -> int:
        """What a lumi of so many events takes off the total."""


class OpenJob:
    """A job that is being filled."""

    __slots__ = ("events", "failure", "lumis", "parts", "windows")

    def __init__(self, failure: str = "") -> None:
        self.windows: list[FileWindow] = []
        self.parts: list[Ranges] = []  # of each file
        self.lumis = 0
        self.events = 0
        self.failure = failure

    def add(self, window: FileWindow, part: Sequence[LumiRange], per_lumi: int) -> None:
        """Take part of a file, if it is any."""
        if part:
            lumis = count(part)
            self.windows.append(window)
            self.parts.append(tuple(part))
            self.lumis += lumis
            self.events += lumis * per_lumi

    def finished(self, shares: Shares | None) -> JobSpec:
        """The job as it is; shares are given where lumis may be in several files."""
        windows = tuple(self.windows) if shares is None else windows_once(self.windows, self.parts, shares)
        mask = self.parts[0] if len(self.parts) == 1 else tuple(chain.from_iterable(self.parts))
        code = TOO_LONG if self.failure else None
        return JobSpec(windows, windows[0].file.sites, self.events, None, mask, code, self.failure)


def fill_jobs(
    places: Sequence[list[FileSpec]], parameters: Parameters, selection: Selection, pace: Pace
) -> Iterator[JobSpec]:
    """Jobs of the wanted lumis, at this pace; a job never has files of two places."""
    left = pace.total
    for place in places:
        files = read_lumi_files(place, selection)
        walk = _Walk(pace, selection, split_on_run=parameters.split_on_run, left=left)
        shares: Shares | None = {} if files.tangled else None
        if files.tangled and parameters.apply_lumi_correction:
            files, shares = correct(files)
        jobs: Iterable[OpenJob] = walk.jobs(files)
        if shares and left is not None:
            jobs = list(jobs)
            shares = walk.shares_met(shares, files)
        for job in jobs:
            yield job.finished(shares)
        if walk.done:
            return
        left = walk.left


class _Walk:
    """The walk over the files of one place."""

    def __init__(self, pace: Pace, selection: Selection, *, split_on_run: bool, left: int | None) -> None:
        self.pace = pace
        self.selection = selection
        self.split_on_run = split_on_run
        self.left = left  # of the total
        self.done = False  # an early stop was reached
        self.job = OpenJob()
        self.run = -1  # of the lumi taken last
        self.stop = True  # the next lumi starts a job

    def shares_met(self, shares: Shares, files: LumiFiles) -> Shares:
        """The shares of lumis that the walk came by before it ended."""
        if not self.done:
            return shares
        return shares_until(shares, files.files.index(self.job.windows[-1].file), self.job.parts[-1][-1])

    def jobs(self, files: LumiFiles) -> Iterator[OpenJob]:
        """Every job, as soon as it is full. A file that fits goes in as it is, its ranges unseen."""
        room_of, split_on_run = self.pace.room, self.split_on_run
        for file, own, lumis, wanted in zip(files.files, files.own, files.lumis, files.wanted, strict=True):
            job, run, per_lumi = self.job, own[0][0], round(file.events / lumis)
            room = room_of(file, lumis, per_lumi, job)
            open_lumis, fresh_lumis, starts, failure = room
            starts = starts or self.stop or (split_on_run and run != self.run) or job.lumis >= open_lumis
            taken = lumis if wanted is own else count(wanted)
            if (
                taken > (fresh_lumis if starts else open_lumis - job.lumis)
                or not wanted
                or run != own[-1][0]
                or self.left is not None
            ):
                yield from self._cut(file, by_run(own, wanted, self.selection), per_lumi, room)
                if self.done:
                    break
                continue
            if starts:
                if job.lumis:
                    yield job
                job = self.job = OpenJob(failure)
                self.stop = False
            job.windows.append(FileWindow(file))
            job.parts.append(wanted)
            job.lumis += taken
            job.events += taken * per_lumi
            self.run = run
        if self.job.lumis:
            yield self.job

    def _cut(
        self, file: FileSpec, runs: list[tuple[int, Ranges]], per_lumi: int, room: Room
    ) -> Iterator[OpenJob]:
        """Put the lumis of one file, range by range, into as many jobs as it takes."""
        job, window, price = self.job, FileWindow(file), self.pace.price(per_lumi)
        capacity, fresh_lumis, starts, failure = room
        space, part = capacity - job.lumis, list[LumiRange]()
        stop = self.stop or starts
        for run, ranges in runs:
            stop = stop or (self.split_on_run and run != self.run)
            for _, first, last in ranges:
                while first <= last:
                    if stop or space <= 0:
                        job.add(window, part, per_lumi)
                        if job.lumis:
                            yield job
                        job = self.job = OpenJob(failure)
                        space, part, stop = fresh_lumis, [], False
                    end = last if last - first < space else first + space - 1
                    if self.left is not None:
                        end = self._affordable(first, end, price)
                    part.append((run, first, end))
                    space -= end - first + 1
                    self.run, first = run, end + 1
                    if self.done:
                        job.add(window, part, per_lumi)
                        return
        job.add(window, part, per_lumi)
        self.stop = stop

    def _affordable(self, first: int, last: int, price: int) -> int:
        """The last lumi that an early stop still allows; what it costs is spent."""
        if self.left is not None and price:
            last = min(last, first - (-self.left // price) - 1)
            self.left -= (last - first + 1) * price
            self.done = self.left <= 0
        return last
