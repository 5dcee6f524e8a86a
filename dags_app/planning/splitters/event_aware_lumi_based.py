"""EventAwareLumiBased: as many lumis per job as come to so many events, judged by each file's average."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from dags_app.planning.parameters import Parameters
from dags_app.planning.selection import Selection
from dags_app.planning.splitters.filling import OpenJob, Room, fill_jobs
from dags_app.planning.splitters.lumi_files import LumiFile
from dags_app.planning.types import FileSpec, JobSpec

DEFAULT_EVENTS_PER_JOB = 5000


def split_event_aware_lumi_based(
    places: Sequence[list[FileSpec]], parameters: Parameters, selection: Selection
) -> Iterator[JobSpec]:
    """Jobs of at most `events_per_job` events as far as whole lumis allow, and of one lumi at least.

    `total_events` stops early. A file of a single lumi that would run longer than `job_time_limit`
    becomes a failed job: it cannot be cut. A file without lumis gets no job.
    """
    pace = _EventPace(
        target=parameters.events_per_job or DEFAULT_EVENTS_PER_JOB,
        parameters=parameters,
        left=parameters.total_events,
    )
    return fill_jobs(places, parameters, selection, pace)


@dataclass(slots=True)
class _EventPace:
    """Room by events: what the job under way lacks, and what makes a full job of this file."""

    target: int
    parameters: Parameters
    left: int | None

    def room(self, file: LumiFile, job: OpenJob) -> Room:
        events = file.events_per_lumi
        seconds = events * self.parameters.time_per_event_sec
        if file.lumis == 1 and seconds > self.parameters.job_time_limit:
            return Room(1, 1, starts_job=True, failure=self._failure(file, seconds))
        full = max(self.target // events, 1) if events else file.lumis
        if self.parameters.halt_job_on_file_boundaries:
            return Room(full, full, starts_job=True)
        more = max(self.target - job.events, 0) // events if events else file.lumis
        return Room(max(job.lumis + more, 1), full)

    def price(self, file: LumiFile) -> int:
        return file.events_per_lumi

    def _failure(self, file: LumiFile, seconds: float) -> str:
        if not self.parameters.allow_creation_failure:
            return ""
        (run, lumi, _), one = file.ranges[0], file.window.file
        limit = self.parameters.job_time_limit
        return (
            f"lumi {lumi} of run {run} is all of {one.lfn} and cannot be cut: its {one.events} events "
            f"need about {seconds:.0f} s, a job may take {limit} s"
        )
