"""Filling jobs with lumis, file by file and range by range: the walk both lumi splitters share."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import Protocol

from dags_app.planning.lumis import Ranges
from dags_app.planning.parameters import Parameters
from dags_app.planning.selection import Selection
from dags_app.planning.splitters.lumi_files import LumiFile, in_order, read_lumi_files
from dags_app.planning.splitters.sharing import correct, forget_beyond, windows_once
from dags_app.planning.types import FileSpec, JobSpec

TOO_LONG = 99305  # CMS: the job would run longer than any site lets it


# How much of a file jobs may take: lumis the job under way may hold in all, lumis each further job may
# hold, whether the file starts a job, and why a job with it cannot run ("" if it can).
Room = tuple[int, int, bool, str]


class Pace(Protocol):
    """What distinguishes the lumi splitters."""

    left: int | None  # how much may still be taken, None without a limit

    def room(self, file: LumiFile, job: OpenJob) -> Room:
        """Room for the lumis of the file, given the job under way."""

    def price(self, file: LumiFile) -> int:
        """What one lumi of the file takes off what is left."""


class OpenJob:
    """A job that is being filled."""

    __slots__ = ("events", "failure", "files", "lumis", "parts")

    def __init__(self, failure: str = "") -> None:
        self.files: list[LumiFile] = []
        self.parts: list[Ranges] = []  # of each file
        self.lumis = 0
        self.events = 0
        self.failure = failure

    def add(self, file: LumiFile, part: Ranges, lumis: int) -> None:
        """Take these lumis of the file."""
        if self.files and self.files[-1] is file:
            self.parts[-1] += part
        else:
            self.files.append(file)
            self.parts.append(part)
        self.lumis += lumis
        self.events += lumis * file.events_per_lumi

    def finished(self, *, tangled: bool) -> JobSpec:
        """The job as it is."""
        if tangled:
            windows = windows_once(self.files, self.parts)
        else:
            windows = tuple([file.window for file in self.files])
        return JobSpec(
            files=windows,
            sites=windows[0].file.sites,
            events=self.events,
            mask=tuple(chain.from_iterable(self.parts)),
            failed_code=TOO_LONG if self.failure else None,
            failed_reason=self.failure,
        )


def fill_jobs(
    places: Sequence[list[FileSpec]], parameters: Parameters, selection: Selection, pace: Pace
) -> Iterator[JobSpec]:
    """Jobs of the wanted lumis, at this pace; a job never has files of two places."""
    for files in places:
        place = in_order(files)
        filler = _Filler(pace, split_on_run=parameters.split_on_run)
        prepared = read_lumi_files(place, selection)
        if place.tangled and parameters.apply_lumi_correction:
            jobs = _corrected(filler, prepared)
        else:
            jobs = filler.jobs(prepared)
        for job in jobs:
            yield job.finished(tangled=place.tangled)
        if filler.is_done():
            return


def _corrected(filler: _Filler, files: Iterable[LumiFile]) -> Iterator[OpenJob]:
    """The jobs after every file has told with whom it shares lumis, or every file until an early stop."""
    if filler.pace.left is None:
        return filler.jobs(list(correct(files)))
    jobs = list(filler.jobs(correct(files)))
    if filler.is_done():
        owners = [file for job in jobs for file in job.files]
        forget_beyond(owners, jobs[-1].files[-1], jobs[-1].parts[-1][-1])
    return iter(jobs)


class _Filler:
    """The walk over the files of one place."""

    def __init__(self, pace: Pace, *, split_on_run: bool) -> None:
        self.pace = pace
        self.split_on_run = split_on_run
        self.limited = pace.left is not None
        self.job = OpenJob()
        self.run = -1  # of the lumi taken last
        self.stop = True  # the next lumi starts a job

    def is_done(self) -> bool:
        """Was an early stop reached?"""
        return self.pace.left is not None and self.pace.left <= 0

    def jobs(self, files: Iterable[LumiFile]) -> Iterator[OpenJob]:
        """Every job, as soon as it is full. A file that fits as it is goes in without a look at its ranges."""
        room_of, split_on_run = self.pace.room, self.split_on_run
        for file in files:
            job = self.job
            room = room_of(file, job)
            open_lumis, fresh_lumis, starts, failure = room
            if self.limited or file.runs is not None:
                yield from self._cut(file, room)
                if self.is_done():
                    break
                continue
            starts = starts or self.stop or (split_on_run and file.run != self.run) or job.lumis >= open_lumis
            if file.wanted > (fresh_lumis if starts else open_lumis - job.lumis):
                yield from self._cut(file, room)
                continue
            if starts:
                if job.lumis:
                    yield job
                job = self.job = OpenJob(failure)
                self.stop = False
            job.add(file, file.ranges, file.wanted)
            self.run = file.run
        if self.job.lumis:
            yield self.job

    def _cut(self, file: LumiFile, room: Room) -> Iterator[OpenJob]:
        pace, price = self.pace, self.pace.price(file)
        capacity, fresh_lumis, starts, failure = room
        self.stop = self.stop or starts
        for run, ranges in file.by_run():
            if self.split_on_run and run != self.run:
                self.stop = True
            for _, first, last in ranges:
                while first <= last:
                    if self.stop or self.job.lumis >= capacity:
                        if self.job.lumis:
                            yield self.job
                        self.job, self.stop, capacity = OpenJob(failure), False, fresh_lumis
                    end = min(last, first + capacity - self.job.lumis - 1)
                    if pace.left is not None and price:
                        end = min(end, first - (-pace.left // price) - 1)
                        pace.left -= (end - first + 1) * price
                    self.job.add(file, ((run, first, end),), end - first + 1)
                    self.run, first = run, end + 1
                    if self.is_done():
                        return
