"""EventAwareLumiBased: lumis per job up to a number of events, by each file's average."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from dags_app.planning.parameters import Parameters
from dags_app.planning.selection import Selection
from dags_app.planning.splitters.base import Splitter
from dags_app.planning.splitters.filling import OpenJob, Room, fill_jobs
from dags_app.planning.types import FileSpec, JobSpec
from dags_app.states import SplittingAlgo

DEFAULT_EVENTS_PER_JOB = 5000


def split_event_aware_lumi_based(
    places: Sequence[list[FileSpec]], parameters: Parameters, selection: Selection
) -> Iterator[JobSpec]:
    """Yield jobs of at most `events_per_job` events in whole lumis, at least one lumi each.

    `total_events` stops early. A file of a single lumi that would run longer than `job_time_limit` becomes
    a failed job: it cannot be cut. A file without lumis gets no job.
    """
    pace = _EventPace(
        target=parameters.events_per_job or DEFAULT_EVENTS_PER_JOB,
        halts=parameters.halt_job_on_file_boundaries,
        time_per_event_sec=parameters.time_per_event_sec,
        job_time_limit=parameters.job_time_limit,
        may_fail=parameters.allow_creation_failure,
        total=parameters.total_events,
    )
    return fill_jobs(places, parameters, selection, pace)


@dataclass(slots=True)
class _EventPace:
    """Room by events: what the current job lacks, and what makes a full job of this file."""

    target: int
    halts: bool
    time_per_event_sec: float
    job_time_limit: int
    may_fail: bool
    total: int | None

    def room(self, file: FileSpec, lumis: int, per_lumi: int, job: OpenJob) -> Room:
        if lumis == 1 and per_lumi * self.time_per_event_sec > self.job_time_limit:
            return 1, 1, True, self._failure(file) if self.may_fail else ""
        full = self.target // per_lumi or 1 if per_lumi else lumis
        if self.halts:
            return full, full, True, ""
        lacking = self.target - job.events
        more = (lacking // per_lumi if lacking > 0 else 0) if per_lumi else lumis
        return job.lumis + more or 1, full, False, ""

    def price(self, per_lumi: int) -> int:
        return per_lumi

    def _failure(self, file: FileSpec) -> str:
        (run, lumi, _), events = file.lumis[0], file.events
        return (
            f"lumi {lumi} of run {run} is all of {file.lfn} and cannot be cut: its {events} events "
            f"need about {events * self.time_per_event_sec:.0f} s, a job may take {self.job_time_limit} s"
        )


SPLITTER = Splitter(
    SplittingAlgo.EVENT_AWARE_LUMI_BASED,
    split_event_aware_lumi_based,
    size="events_per_job",
    total="total_events",
)
