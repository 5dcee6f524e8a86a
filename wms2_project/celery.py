"""The Celery application. Tasks are in requests_app and chains_app; PostgreSQL decides what is due."""

from __future__ import annotations

import os
import sys
import time
from typing import Any

from celery import Celery, Task, bootsteps
from celery.signals import task_postrun, task_prerun, worker_init
from celery.states import SUCCESS
from django.conf import settings
from django.db import close_old_connections, connections

from wms2_project.observation import counters, heartbeat

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "wms2_project.settings")


class CountedTask(Task):  # type: ignore[misc]
    """Counts and times every run of a task, in any process."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        began, outcome = time.monotonic(), "failed"
        try:
            value = super().__call__(*args, **kwargs)
            outcome = "done"
            return value
        finally:
            counters.count(counters.TASKS, self.name, outcome, seconds=time.monotonic() - began)


class Pulse(bootsteps.StartStopStep):  # type: ignore[misc]
    """Records a heartbeat of the worker for the queues it serves, every few seconds."""

    requires = {"celery.worker.components:Timer"}

    def __init__(self, worker: Any, **options: Any) -> None:
        super().__init__(worker, **options)
        self._entry: Any = None

    def start(self, worker: Any) -> None:
        named = (worker.hostname, tuple(worker.app.amqp.queues.consume_from))
        heartbeat.beat(*named)
        self._entry = worker.timer.call_repeatedly(heartbeat.INTERVAL_SEC, heartbeat.beat, named, priority=10)

    def stop(self, worker: Any) -> None:
        if self._entry is not None:
            self._entry.cancel()
        heartbeat.silence(worker.hostname, tuple(worker.app.amqp.queues.consume_from))


app = Celery("wms2", task_cls=CountedTask)
# Celery's own settings only: a worker shows its whole configuration to inspection tools such as Flower
app.config_from_object(
    {
        name.removeprefix("CELERY_").lower(): getattr(settings, name)
        for name in dir(settings)
        if name.startswith("CELERY_")
    }
)
app.conf["CELERY_DB_REUSE_MAX"] = sys.maxsize  # else Celery reconnects for every task; see _check_connections
app.autodiscover_tasks(["requests_app", "chains_app"])
app.steps["worker"].add(Pulse)


@worker_init.connect  # type: ignore[untyped-decorator]
def _check(**_given: Any) -> None:
    from wms2_project.checks import refuse_to_start_unless_configured  # Django is set up by now

    refuse_to_start_unless_configured()


@task_prerun.connect  # type: ignore[untyped-decorator]
def _check_connections(**_given: Any) -> None:
    """Close connections that are too old; others are checked before their first query."""
    close_old_connections()


@task_postrun.connect  # type: ignore[untyped-decorator]
def _distrust_connections(state: str, **_given: Any) -> None:
    """Close the connections of a failed task: it may have ended amid a query or hold session locks."""
    if state != SUCCESS:
        connections.close_all()
