"""What the rest of WMS2 may ask of a schedd. The real one and a simulated one keep the same promises."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Protocol

from condor.analysis import MatchAnalysis
from condor.types import DagmanAd, Presence, RunningJob, ScheddLimits, StuckJob


class ScheddPort(Protocol):
    """A schedd, steered by batch names (`wms2-…`); one batch name is one DAG, never reused.

    Every call ends within a bound. A schedd that does not answer raises ScheddUnreachable, which says nothing
    about its jobs; only `find_dag` and `ping` turn it into a value.
    """

    @property
    def name(self) -> str:
        """The schedd's name, as the pool knows it."""
        ...

    def submit_dag(
        self, dag_file: Path, batch_name: str, *, priority: int = 0, max_groups: int | None = None
    ) -> int:
        """Submit the DAG (resuming from its highest rescue file, if any) and return the cluster id.

        `max_groups` bounds the groups that run at a time, in addition to the throttles of the DAG file.

        After ScheddUnreachable it may or may not have been submitted: ask `find_dag` before trying again.
        """
        ...

    def find_dag(self, batch_name: str, *, not_before: float = 0.0) -> tuple[Presence, DagmanAd | None]:
        """Look in the queue, then in history from its end back to `not_before` (epoch) and some margin."""
        ...

    def query_dags(self, batch_names: Iterable[str] | None = None) -> Mapping[str, DagmanAd]:
        """Every queued DAG of ours, or those named, in one query."""
        ...

    def stuck_jobs(self, batch_names: Iterable[str], *, idle_sec: int) -> list[StuckJob]:
        """Jobs of the DAGs named that are on hold, or idle for so long: one query, bounded in number."""
        ...

    def running_jobs(self, batch_names: Iterable[str], *, longer_than_sec: int) -> list[RunningJob]:
        """Processing jobs of the DAGs named that have run for so long: one query, the oldest, bounded."""
        ...

    def remove_jobs(self, batch_name: str, cluster_ids: Collection[int], *, reason: str) -> int:
        """Remove these running jobs of the DAG, so that their nodes fail; returns how many were removed."""
        ...

    def working_groups(self, batch_names: Iterable[str]) -> set[tuple[str, str]]:
        """The groups of the DAGs named, with their batch, that have a job which is not on hold."""
        ...

    def finished_dag(self, batch_name: str, cluster_id: int, *, not_before: float = 0.0) -> DagmanAd | None:
        """The final ad of a DAG that left the queue after `not_before`; None if history does not hold it."""
        ...

    def remove_dag(self, batch_name: str, *, reason: str, resumable: bool = True) -> int:
        """Remove the DAG, by default so that it can be resumed; returns how many DAGMans were removed."""
        ...

    def clear_batch(self, batch_name: str, *, reason: str) -> int:
        """Remove every job of the batch that its DAGMans left behind; returns how many are still there."""
        ...

    def hold_dag(self, batch_name: str, *, reason: str) -> int:
        """Hold the outer and every inner DAGMan; running jobs go on."""
        ...

    def release_dag(self, batch_name: str, *, reason: str) -> int:
        """Release what `hold_dag` held."""
        ...

    def set_priority(self, batch_name: str, priority: int) -> int:
        """Change the priority of the jobs that are queued now; returns how many."""
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
        """By site, the cores our idle jobs request; a job that may run at several sites counts at each."""
        ...

    def ping(self) -> bool:
        """Does the schedd answer?"""
        ...

    def explain_idle(self, batch_name: str) -> MatchAnalysis | None:
        """HTCondor's own analysis of one idle job of the DAG; None if no job is idle."""
        ...

    def limits(self) -> ScheddLimits:
        """How many DAGMans the schedd lets run."""
        ...
