"""LumiBased: a fixed number of lumis per job, in the order of runs and lumis."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from dags_app.planning.parameters import Parameters
from dags_app.planning.selection import Selection
from dags_app.planning.splitters.base import Splitter
from dags_app.planning.splitters.filling import OpenJob, Room, fill_jobs
from dags_app.planning.types import FileSpec, JobSpec
from dags_app.states import SplittingAlgo

DEFAULT_LUMIS_PER_JOB = 1


def split_lumi_based(
    places: Sequence[list[FileSpec]], parameters: Parameters, selection: Selection
) -> Iterator[JobSpec]:
    """Yield jobs of exactly `lumis_per_job` lumis, fewer where a run, a file or the input ends.

    `total_lumis` stops early. A file without lumis gets no job.
    """
    lumis = parameters.lumis_per_job or DEFAULT_LUMIS_PER_JOB
    room = (lumis, lumis, parameters.halt_job_on_file_boundaries, "")
    return fill_jobs(places, parameters, selection, _SteadyPace(room, total=parameters.total_lumis))


@dataclass(slots=True)
class _SteadyPace:
    """The same room for every file; every lumi counts as one."""

    always: Room
    total: int | None

    def room(self, _file: FileSpec, _lumis: int, _per_lumi: int, _job: OpenJob) -> Room:
        return self.always

    def price(self, _per_lumi: int) -> int:
        return 1


SPLITTER = Splitter(SplittingAlgo.LUMI_BASED, split_lumi_based, size="lumis_per_job", total="total_lumis")
