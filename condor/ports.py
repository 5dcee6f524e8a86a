"""What the rest of WMS2 may ask of a schedd. The real one and a simulated one keep the same promises."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Protocol

from condor.types import DagmanAd, Presence, ScheddLimits


class ScheddPort(Protocol):
    """A schedd, steered by batch names (`wms2-…`); one batch name is one DAG, never reused.

    Every call ends within a bound. A schedd that does not answer raises ScheddUnreachable, which says nothing
    about its jobs; only `find_dag` and `ping` turn it into a value.
    """

    @property
    def name(self) -> str:
        """The schedd's name, as the pool knows it."""
        ...

    def submit_dag(self, dag_file: Path, batch_name: str, *, priority: int = 0) -> int:
        """Submit the DAG (resuming from its highest rescue file, if any) and return the cluster id.

        After ScheddUnreachable it may or may not have been submitted: ask `find_dag` before trying again.
        """
        ...

    def find_dag(self, batch_name: str, *, not_before: float = 0.0) -> tuple[Presence, DagmanAd | None]:
        """Look in the queue, then in history; history older than `not_before` (epoch) is not searched."""
        ...

    def query_dags(self, batch_names: Iterable[str] | None = None) -> Mapping[str, DagmanAd]:
        """Every queued DAG of ours, or those named, in one query."""
        ...

    def finished_dag(self, batch_name: str, cluster_id: int) -> DagmanAd | None:
        """The final ad of a DAG that has left the queue; None if history does not hold it."""
        ...

    def remove_dag(self, batch_name: str, *, reason: str) -> int:
        """Remove the DAG so that it can be resumed; returns how many DAGMans were removed."""
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

    def ping(self) -> bool:
        """Does the schedd answer?"""
        ...

    def limits(self) -> ScheddLimits:
        """How many DAGMans the schedd lets run."""
        ...
