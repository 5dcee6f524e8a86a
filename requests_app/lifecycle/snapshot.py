"""Snapshot of a request: values that several gates and the handler share are read once."""

from __future__ import annotations

from datetime import datetime
from functools import cached_property

from dags_app.models import DAG, DAGEvent, Schedd
from dags_app.planning.types import SitePool
from dags_app.services.control import EDITED
from dags_app.services.manifests import count_groups
from dags_app.services.production import newest_dag
from dags_app.services.schedds import schedd_rows
from dags_app.states import IN_QUEUE, DAGStatus
from outputs_app.dataset_ownership import HELD
from outputs_app.models import DatasetClaim
from outputs_app.selectors import BlockCount, Trouble, block_counts, trouble_of
from outputs_app.states import BlockStatus
from requests_app import admission
from requests_app.models import Request
from sites_app.selectors import usable_sites
from sites_app.services.returning import AwaitedSite, awaited_site


class Snapshot:
    """A request at one moment, with lazily read, cached values."""

    def __init__(self, request: Request, now: datetime) -> None:
        self.request, self.now = request, now
        self.workflow = request.workflow

    @cached_property
    def dag(self) -> DAG | None:
        """The newest DAG of the workflow."""
        return newest_dag(workflow=self.workflow)

    @property
    def queued_dag(self) -> DAG | None:
        """The newest DAG if it is in a schedd's queue."""
        return self.dag if self.dag is not None and self.dag.status in IN_QUEUE else None

    @property
    def prepared(self) -> bool:
        """Whether the newest DAG is a rescue or resume that is not submitted yet."""
        dag = self.dag
        return dag is not None and dag.status == DAGStatus.READY and dag.parent_id is not None

    @cached_property
    def groups(self) -> dict[str, int]:
        """Number of groups in the DAG's round by status."""
        return count_groups(round_=self.dag.round) if self.dag is not None else {}

    @cached_property
    def stranded(self) -> DAGEvent | None:
        """The event that lists the groups without a usable site, or None."""
        last = self.dag.events.filter(event_type=EDITED).last() if self.dag is not None else None
        return last if last is not None and last.detail.get("landings_without_site") else None

    @cached_property
    def sites(self) -> SitePool:
        """Sites the workflow can use."""
        return usable_sites(workflow=self.workflow, now=self.now)

    @cached_property
    def awaited_site(self) -> AwaitedSite | None:
        """The unavailable site the workflow must wait for, or None."""
        return awaited_site(workflow=self.workflow, sites=self.sites, prepared=self.prepared, now=self.now)

    @property
    def awaits_input(self) -> bool:
        """Whether the workflow waits for a site because only that site can read its input."""
        return self.awaited_site is not None and self.awaited_site.for_input

    @cached_property
    def turn(self) -> admission.Verdict:
        """Admission verdict."""
        return admission.decide(self.request, now=self.now)

    @cached_property
    def schedds(self) -> dict[str, Schedd]:
        """All schedds by name, with their last known state."""
        return schedd_rows()

    @cached_property
    def claims(self) -> list[DatasetClaim]:
        """Claims of the workflow on its output datasets."""
        return list(self.workflow.claims.filter(HELD).order_by("dataset_name"))

    @cached_property
    def blocks(self) -> dict[BlockStatus, BlockCount]:
        """Output blocks by status."""
        return block_counts(workflow=self.workflow)

    @cached_property
    def trouble(self) -> Trouble | None:
        """Persistent failure of the output blocks, or None."""
        return trouble_of(workflow=self.workflow, counts=self.blocks)
