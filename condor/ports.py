"""Interface of a schedd, implemented by the real one and by a fake for tests."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Protocol

from condor.analysis import MatchAnalysis
from condor.types import DagmanAd, Presence, RunningJob, ScheddLimits, StuckJob


class ScheddPort(Protocol):
    """A schedd, addressed by batch names (`wms2-…`); one batch name is one DAG, never reused.

    Every call is bounded in time. If the schedd does not answer, ScheddUnreachable is raised, which says
    nothing about its jobs; only `find_dag` and `ping` return a value instead.
    """

    @property
    def name(self) -> str:
        """The schedd's name in the pool."""
        ...

    def submit_dag(
        self, dag_file: Path, batch_name: str, *, priority: int = 0, max_groups: int | None = None
    ) -> int:
        """Submit the DAG (resuming from its highest rescue file, if any) and return the cluster id.

        `max_groups` bounds the groups that run at a time, in addition to the throttles of the DAG file.

        After ScheddUnreachable the DAG may or may not have been submitted: call `find_dag` before a retry.
        """
        ...

    def find_dag(self, batch_name: str, *, not_before: float = 0.0) -> tuple[Presence, DagmanAd | None]:
        """Search the queue, then history from its end back to `not_before` (epoch) and some margin."""
        ...

    def query_dags(self, batch_names: Iterable[str] | None = None) -> Mapping[str, DagmanAd]:
        """Return all queued DAGs of WMS2, or those named, in one query."""
        ...

    def stuck_jobs(self, batch_names: Iterable[str], *, idle_sec: int) -> list[StuckJob]:
        """Return jobs of these DAGs that are held, or idle for `idle_sec`: one query, bounded in number."""
        ...

    def running_jobs(self, batch_names: Iterable[str], *, longer_than_sec: int) -> list[RunningJob]:
        """Return processing jobs of these DAGs that have run so long: one query, oldest first, bounded."""
        ...

    def remove_jobs(self, batch_name: str, cluster_ids: Collection[int], *, reason: str) -> int:
        """Remove these running jobs of the DAG, so that their nodes fail; return how many were removed."""
        ...

    def working_groups(self, batch_names: Iterable[str]) -> set[tuple[str, str]]:
        """Return (batch, group) of the groups of these DAGs with a job that is not held."""
        ...

    def finished_dag(self, batch_name: str, cluster_id: int, *, not_before: float = 0.0) -> DagmanAd | None:
        """Return the final ad of a DAG that left the queue after `not_before`; None if not in history."""
        ...

    def remove_dag(self, batch_name: str, *, reason: str, resumable: bool = True) -> int:
        """Remove the DAG, by default so that it can be resumed; return how many DAGMans were removed."""
        ...

    def clear_batch(self, batch_name: str, *, reason: str) -> int:
        """Remove all jobs of the batch that its DAGMans left; return how many were found."""
        ...

    def hold_dag(self, batch_name: str, *, reason: str) -> int:
        """Hold the outer and every inner DAGMan; running jobs continue."""
        ...

    def release_dag(self, batch_name: str, *, reason: str) -> int:
        """Release the DAGMans that `hold_dag` held."""
        ...

    def set_priority(self, batch_name: str, priority: int) -> int:
        """Change the priority of the queued jobs; return how many."""
        ...

    def limit_groups(self, batch_names: Iterable[str], max_groups: int) -> int:
        """Let each of the DAGs run at most so many groups at a time; return how many DAGs were changed."""
        ...

    def place_landings(self, batch_name: str, sites: Mapping[str, Collection[str]]) -> int:
        """Set the sites of landings that wait in the queue, by group; return how many changed.

        A landing without a site stays in the queue and matches nowhere until it has one.
        """
        ...

    def idle_cores(self) -> Mapping[str, int]:
        """Return the cores that idle jobs of WMS2 request, by site; a job counts at each of its sites."""
        ...

    def ping(self) -> bool:
        """Return whether the schedd answers."""
        ...

    def explain_idle(self, batch_name: str) -> MatchAnalysis | None:
        """Return HTCondor's analysis of one idle job of the DAG; None if no job is idle."""
        ...

    def limits(self) -> ScheddLimits:
        """Return the limits of running DAGMans."""
        ...
