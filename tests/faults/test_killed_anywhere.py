"""Workers die by SIGKILL at every step from plan to record, fifty times: nothing is lost or doubled."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit
from uuid import uuid4

import pytest
from django.conf import settings as django_settings
from django.db import connection
from django.utils import timezone

from dags_app.adapters import dbs
from dags_app.models import DAG, InputFile, MergeGroup, Workflow
from lab.seed.__main__ import seed
from lab.seed.documents import copy_of
from lab.seed.storage import Storage
from lab.toy.eventfile import read_events
from outputs_app.models import OutputBlock, OutputFile
from requests_app.models import Request
from requests_app.services.importing import import_request
from requests_app.services.stopping import stop_request
from requests_app.states import RequestStatus
from sites_app.services.sites import sync_sites
from tests.pool import clusters, schedd, schedd_names

pytestmark = pytest.mark.django_db(transaction=True)
ROOT = Path(__file__).resolve().parents[2]
LONGEST_SEC = 1500
# How many workers die at each point: a worker dies at the first one that it reaches and that lacks deaths.
DEATHS = {
    "plan.written": 4, "plan.recorded": 4, "submit.placed": 4, "submit.sent": 4, "submit.recorded": 4,
    "collect.read": 4, "collect.recorded": 4, "monitor.ended": 4, "stop.removed": 2,
    "monitor.read": 4, "monitor.recorded": 4, "advance.decided": 4, "advance.moved": 4,
}  # fmt: skip
Events = Counter[tuple[int, int, int]]


class Workers:
    """Workers that die at points with too few deaths."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self.deaths: Counter[str] = Counter()

    @property
    def lacking(self) -> list[str]:
        """The points at which too few have died."""
        return [point for point, wanted in DEATHS.items() if self.deaths[point] < wanted]

    def work(self) -> None:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(" ".join(self.lacking) + "\n")
        self.process.stdin.flush()
        self.deaths.update(filter(None, json.loads(self.process.stdout.readline())))


@pytest.fixture
def workers() -> Iterator[Workers]:
    """Yield worker processes on the test's database, with short leases, so that a death costs a second."""
    given = urlsplit(os.environ["DATABASE_URL"])
    database = urlunsplit(given._replace(path=f"/{connection.settings_dict['NAME']}"))
    env = os.environ | {
        "DATABASE_URL": database,
        "WMS2_SUBMIT_ROOT": submit_root(),
        "WMS2_LEASE_TTL_SEC": "1",
        "WMS2_LEASE_PULSE_SEC": "1",
        "WMS2_POLL_INTERVAL_SEC": "0.3",
        "WMS2_MAX_WORKER_DEATHS": "1000",
        "WMS2_LOG_LEVEL": "ERROR",
        "PYTHONPATH": str(ROOT),
    }
    with subprocess.Popen(
        [sys.executable, "-m", "tests.faults.zygote"],
        env=env, cwd=ROOT, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
    ) as process:  # fmt: skip
        yield Workers(process)
        assert process.stdin is not None
        process.stdin.close()
        process.wait()


def submit_root() -> str:
    return f"{django_settings.SUBMIT_ROOT}/faults-{os.getpid()}"


class Source:
    """Requests to be killed over: one that generates events after a pilot, two with input; more if needed."""

    def __init__(self) -> None:
        sync_sites(now=timezone.now())
        suffix = f"f{uuid4().hex[:9]}"
        prefix = os.environ["WMS2_LAB_STORAGE_PREFIX"]
        _, generating, self.reading = seed(os.environ["WMS2_LAB_CMS_URL"], Storage(prefix), suffix)
        self.names = [self.add(document) for document in (generating, self.reading, self.reading)]

    def add(self, document: dict[str, Any]) -> str:
        copy = copy_of(document, f"c{Request.objects.count()}")
        return import_request(document=copy, actor="user:ana", on_behalf=True)[0].request_name

    def more(self) -> None:
        self.names.append(self.add(self.reading))


def test_death_at_every_step_loses_nothing_and_doubles_nothing(workers: Workers) -> None:
    source, stopped = Source(), set[str]()
    end = time.monotonic() + LONGEST_SEC
    while unfinished() or workers.lacking:
        if not unfinished():
            source.more()
        assert time.monotonic() < end, f"{unfinished()}, no worker died at {workers.lacking}"
        workers.work()
        stop_one(stopped, wanted="stop.removed" in workers.lacking)
    assert_no_dag_ran_twice()
    assert_no_group_was_lost(source.names)


def unfinished() -> dict[str, str]:
    held = Request.objects.filter(status__in=["held", "failed", "aborted"]).first()
    assert held is None, f"{held} is {held.status}: {held.last_error}"
    return dict(Request.objects.exclude(status="completed").values_list("request_name", "status"))


def stop_one(stopped: set[str], *, wanted: bool) -> None:
    """Stop some running requests, so that workers die during removal and resumption, too."""
    active = Request.objects.filter(status=RequestStatus.ACTIVE, workflow__dags__status="running")
    request = active.exclude(request_name__in=stopped).first()
    if request is not None and (wanted or len(stopped) < 2):
        stop_request(request=request, actor="user:olga", reason="maintenance")
        stopped.add(request.request_name)


def assert_no_dag_ran_twice() -> None:
    rows = DAG.objects.filter(submitted_at__isnull=False)
    assert {row.token: len(clusters(row.token)) for row in rows} == dict.fromkeys(
        rows.values_list("token", flat=True), 1
    )
    below = f'regexp("^{submit_root()}/", Iwd) && JobUniverse == 7 && DAGManJobId is undefined'
    ever: list[Any] = []
    for name in schedd_names():
        ever += [*schedd(name).query(below, ["JobBatchName"]), *schedd(name).history(below, ["JobBatchName"])]
    assert sorted(ad["JobBatchName"] for ad in ever) == sorted(rows.values_list("token", flat=True))


def assert_no_group_was_lost(names: list[str]) -> None:
    assert set(MergeGroup.objects.values_list("status", flat=True)) == {"collected"}
    assert set(OutputBlock.objects.values_list("status", flat=True)) == {"announced"}
    for workflow in Workflow.objects.filter(request_name__in=names):
        for dataset in workflow.output_datasets:
            ours = OutputFile.objects.filter(block__dataset__dataset_name=dataset).select_related("block")
            written: Events = Counter()
            for file in ours:
                written += events_in(file.lfn, file.block.site)
            registered = {file.lfn for file in dbs().files(dataset)}
            assert registered == {file.lfn for file in ours}, dataset
            if workflow.generates:
                assert max(written.values()) == 1
                assert len(written) >= (workflow.total_events or 0)
            else:
                assert written == wanted(workflow), dataset


def wanted(workflow: Workflow) -> Events:
    events: Events = Counter()
    for file in InputFile.objects.filter(workflow=workflow):
        events += events_in(file.lfn, file.locations[0].removesuffix("_Disk"))
    return events


def events_in(lfn: str, site: str) -> Events:
    path = Path(os.environ["WMS2_LAB_STORAGE_PREFIX"].replace("{site}", site) + lfn)
    return Counter((event.run, event.lumi, event.event) for event in read_events(path))
