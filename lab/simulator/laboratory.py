"""One simulation: WMS2 on a database of its own, with the simulated schedd, pool, CMS and broker."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

from django.conf import settings
from django.db import connection
from django.utils import timezone

from dags_app.adapters import use_adapters
from dags_app.services import monitoring
from lab.cms_world.known import RSES
from lab.simulator.clock import VirtualClock, show_to_database, virtual_time
from lab.simulator.cms import SimulatedCms
from lab.simulator.delivery import Broker, Message, deliver
from lab.simulator.jobs import Jobs
from lab.simulator.pool import Laws, Pool
from lab.simulator.schedd import SimulatedSchedd
from requests_app import tasks
from sites_app.models import Site
from sites_app.services.sites import sync_sites
from sites_app.states import SiteStatus

SITES = sorted({rse.site for rse in RSES})
WIPED = """
    SELECT string_agg(format('DELETE FROM %I.%I;', schemaname, relname), '' ORDER BY relname)
      FROM pg_stat_user_tables
     WHERE relname ~ '^(requests|dags|outputs|sites)_app_|^wms2_project_'
       AND relname NOT IN ('sites_app_site', 'requests_app_quota', 'requests_app_admissionconfig')"""


@dataclass(frozen=True, slots=True)
class Size:
    """Slots per site and seconds between the runs of periodic tasks."""

    slots: int = 20
    cycle_sec: float = 5.0
    sweep_sec: float = 5.0
    monitor_sec: float = 30.0
    tidy_sec: float = 3600.0


class Laboratory:
    """All parts of one simulation. `work` advances it; callers may act in between."""

    def __init__(
        self, directory: Path, *, seed: int, laws: Laws | None = None, size: Size | None = None
    ) -> None:
        self.directory, self.seed = directory, seed
        self.size = size or Size()
        self.clock = VirtualClock()
        self.random = Random(seed)  # noqa: S311 - a simulation
        self.jobs = Jobs(self.clock, laws or Laws(seed=seed))
        slots: Mapping[str, int] = dict.fromkeys(SITES, self.size.slots)
        self.pool = Pool(self.clock, slots, outcome=self.jobs.outcome, cycle_sec=self.size.cycle_sec)
        self.schedd = SimulatedSchedd(self.clock, self.pool, self.jobs)
        self.cms = SimulatedCms(directory / "cms", self.clock)
        self.broker = Broker()
        self.deliver: Callable[[Message], None] = deliver
        self.tidied_at = self.monitored_at = 0.0
        self.due_at = float("inf")  # when the next row of WMS2 was due, before the last move
        self.later: list[tuple[float, dict[str, Any]]] = []  # requests to be submitted, and when

    @contextmanager
    def running(self) -> Iterator[Laboratory]:
        """Connect WMS2 to the laboratory until the block ends."""
        with ExitStack() as stack:
            stack.enter_context(virtual_time(self.clock, self.random))
            stack.enter_context(self.cms.reachable())
            stack.enter_context(self.broker.connected())
            stack.enter_context(
                use_adapters(
                    schedd=self.schedd, dbs=self.cms.dbs, rucio=self.cms.rucio, cric=self.cms.cric,
                    reqmgr2=self.cms.reqmgr2,
                )
            )  # fmt: skip
            monitoring._known.clear()
            self.move_to(self.clock.now)
            if not Site.objects.exists():
                sync_sites(now=timezone.now())
            yield self

    def move_to(self, moment: float) -> None:
        """Advance the simulated services and the clock of the database to this moment."""
        self.clock.run_until(moment)
        show_to_database(self.clock)

    def next_due(self) -> float:
        """Return when the next row of WMS2 becomes due, infinite without one."""
        with connection.cursor() as cursor:
            cursor.execute(DUE, {"ttl": settings.LEASE_TTL_SEC})
            (due,) = cursor.fetchone()
        return float(due) if due is not None else float("inf")

    def advance(self, *, until: float = float("inf")) -> None:
        """Move to the next moment at which WMS2 has something to do: a row is due, or a DAG has news."""
        step = self.size.sweep_sec
        if self.later:
            until = min(until, self.later[0][0])
        self.due_at = self.next_due()
        due = min(self.due_at, min(self.tidied_at, self.monitored_at) + self.size.tidy_sec, until)
        due = max(self.clock.now + step, -(-due // step) * step)
        while not self.schedd.news and self.clock.next_event_at < due:
            self.clock.run_until(self.clock.next_event_at)
        if self.schedd.news:
            due = min(due, max(self.clock.now, self.monitored_at + self.size.monitor_sec))
        self.move_to(due)

    def sweep(self) -> None:
        """Run the sweep and deliver its messages."""
        tasks.sweep.run()
        for message in self.broker.take():
            self.deliver(message)

    def monitor(self) -> None:
        self.schedd.news, self.monitored_at = False, self.clock.now
        tasks.monitor.run()

    def tidy(self) -> None:
        self.tidied_at = self.clock.now
        tasks.tidy.run()

    def monitor_is_due(self) -> bool:
        wait = self.size.monitor_sec if self.schedd.news else self.size.tidy_sec
        return self.clock.now >= self.monitored_at + wait

    def tidy_is_due(self) -> bool:
        return self.clock.now >= self.tidied_at + self.size.tidy_sec

    def work(self) -> None:
        """Run the periodic tasks that are due."""
        if self.monitor_is_due():
            self.monitor()
        if self.tidy_is_due():
            self.tidy()
        self.sweep()

    def close(self) -> None:
        """Remove the files of the simulation."""
        self.cms.answers.store.close()
        for directory in (self.directory, Path(settings.SUBMIT_ROOT)):
            shutil.rmtree(directory, ignore_errors=True)


_DUE = """
    SELECT min(CASE WHEN owner = '' THEN next_check_at
                    ELSE greatest(next_check_at, heartbeat_at + make_interval(secs => %(ttl)s)) END) AS due
      FROM {} WHERE status NOT IN ({})"""
DUE = " ".join((
    "SELECT extract(epoch FROM min(due)) FROM (",
    _DUE.format("requests_app_request", "'held', 'new', 'completed', 'failed', 'aborted'"),
    "UNION ALL",
    _DUE.format("outputs_app_outputblock", "'announced', 'invalidated', 'failed'"),
    ") AS rows",
))  # fmt: skip


def wipe() -> None:
    """Delete all rows of WMS2 but its sites and limits, so that the next simulation starts anew there."""
    with connection.cursor() as cursor:
        cursor.execute(WIPED)
        (statements,) = cursor.fetchone()
        cursor.execute(statements)
    Site.objects.update(status=SiteStatus.ENABLED, drain_until=None, status_reason="", version=1)
