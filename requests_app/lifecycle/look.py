"""One look at a request: what several gates and the handler need is read once, and is the same for all."""

from __future__ import annotations

from datetime import datetime
from functools import cached_property

from dags_app.models import DAG, DAGEvent
from dags_app.planning.types import SitePool
from dags_app.services.collecting import count_groups
from dags_app.services.control import EDITED
from dags_app.services.production import newest_dag
from dags_app.states import IN_QUEUE, DAGStatus
from outputs_app.selectors import Trouble, trouble_of
from requests_app import admission
from requests_app.models import Request
from sites_app.returning import AwaitedSite, awaited_site
from sites_app.selectors import usable_sites


class Look:
    """A request at one moment."""

    def __init__(self, request: Request, now: datetime) -> None:
        self.request, self.now = request, now
        self.workflow = request.workflow

    @cached_property
    def dag(self) -> DAG | None:
        """The DAG that speaks for the workflow now."""
        return newest_dag(workflow=self.workflow)

    @property
    def queued_dag(self) -> DAG | None:
        """The same, if it is in a schedd's queue."""
        return self.dag if self.dag is not None and self.dag.status in IN_QUEUE else None

    @property
    def prepared(self) -> bool:
        """Does it go on with a rescue or resume DAG that is not submitted yet?"""
        dag = self.dag
        return dag is not None and dag.status == DAGStatus.READY and dag.parent_id is not None

    @cached_property
    def groups(self) -> dict[str, int]:
        """How many groups of the DAG's round are in which status."""
        return count_groups(round_=self.dag.round) if self.dag is not None else {}

    @cached_property
    def stranded(self) -> DAGEvent | None:
        """The event that says which groups of its DAG may land nowhere now; None if all may somewhere."""
        last = self.dag.events.filter(event_type=EDITED).last() if self.dag is not None else None
        return last if last is not None and last.detail.get("landings_without_site") else None

    @cached_property
    def sites(self) -> SitePool:
        """The sites the workflow may land on."""
        return usable_sites(workflow=self.workflow, now=self.now)

    @cached_property
    def awaited_site(self) -> AwaitedSite | None:
        """The site that has to come back before the workflow can go on."""
        return awaited_site(workflow=self.workflow, sites=self.sites, prepared=self.prepared, now=self.now)

    @property
    def awaits_input(self) -> bool:
        """Does it wait for a site to come back because only that one reads its input?"""
        return self.awaited_site is not None and self.awaited_site.for_input

    @cached_property
    def turn(self) -> admission.Verdict:
        """May it start, as far as the others are concerned?"""
        return admission.decide(self.request, now=self.now)

    @cached_property
    def trouble(self) -> Trouble | None:
        """What keeps its output blocks from going on."""
        return trouble_of(workflow=self.workflow)
