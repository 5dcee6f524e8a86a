"""Workers die by SIGKILL at every step from plan to record, over fifty times: nothing is lost or doubled."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from itertools import cycle
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
ENOUGH = 50
LONGEST_SEC = 1500
RARE = [
    "plan.written", "plan.recorded", "submit.placed", "submit.sent", "submit.recorded", "collect.read",
    "collect.recorded", "monitor.ended", "stop.removed",
]  # fmt: skip
OFTEN = ["monitor.read", "advance.decided:2", "monitor.recorded", "advance.moved"]
Events = Counter[tuple[int, int, int]]


class Workers:
    """Pairs of workers, each with the place it is to die at."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self.kills: Counter[str] = Counter()

    def work(self, *failpoints: str) -> None:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps(failpoints) + "\n")
        self.process.stdin.flush()
        codes = json.loads(self.process.stdout.readline())
        assert set(codes) <= {0, -signal.SIGKILL}, codes
        self.kills.update(one.partition(":")[0] for one, code in zip(failpoints, codes, strict=True) if code)


@pytest.fixture
def workers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workers]:
    """Worker processes on the test's own database; leases short, so that a death costs a second."""
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
    """Requests to be killed over: with and without input, with and without a pilot; more if needed."""

    def __init__(self) -> None:
        sync_sites(now=timezone.now())
        suffix = f"f{uuid4().hex[:9]}"
        prefix = os.environ["WMS2_STORAGE_PREFIX"]
        self.documents = seed(os.environ["WMS2_LAB_CMS_URL"], Storage(prefix), suffix)
        self.names = [self.add(document) for document in self.documents]
        self.names.append(self.add(self.documents[2]))

    def add(self, document: dict[str, Any]) -> str:
        copy = copy_of(document, f"c{Request.objects.count()}")
        return import_request(document=copy, actor="user:ana", on_behalf=True)[0].request_name

    def more(self) -> None:
        self.names.append(self.add(self.documents[2]))


def test_death_at_every_step_loses_nothing_and_doubles_nothing(workers: Workers) -> None:
    source, stopped, turns = Source(), set[str](), cycle(OFTEN)
    end = time.monotonic() + LONGEST_SEC
    while True:
        lacking = [point for point in RARE if not workers.kills[point]]
        enough = sum(workers.kills.values()) >= ENOUGH and not lacking
        if not unfinished():
            if enough:
                break
            source.more()
        assert time.monotonic() < end, f"{unfinished()} after {dict(workers.kills)}"
        points = ("", "") if enough else (next_point(workers.kills) or next(turns), next(turns))
        workers.work(*points)
        stop_one(stopped, wanted=not workers.kills["stop.removed"])
    assert_no_dag_ran_twice()
    assert_no_group_was_lost(source.names)


def next_point(kills: Counter[str]) -> str:
    """Of the rare places that may be passed now, the one where fewest have died; empty if there is none."""
    to_plan = Request.objects.filter(status__in=["submitted", "queued", "planning"]).exists()
    stopping = Request.objects.filter(status=RequestStatus.STOPPING).exists()
    queued = DAG.objects.filter(status__in=["submitted", "running"]).exists()
    passed = {"plan": to_plan, "submit": to_plan, "stop": stopping, "collect": queued, "monitor": queued}
    likely = [point for point in RARE if passed[point.partition(".")[0]]]
    return min(likely, key=lambda point: kills[point], default="")


def unfinished() -> dict[str, str]:
    held = Request.objects.filter(status__in=["held", "failed", "aborted"]).first()
    assert held is None, f"{held} is {held.status}: {held.last_error}"
    return dict(Request.objects.exclude(status="completed").values_list("request_name", "status"))


def stop_one(stopped: set[str], *, wanted: bool) -> None:
    """Some requests are stopped in mid-flight, so that removal and resumption are met by death too."""
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
    path = Path(os.environ["WMS2_STORAGE_PREFIX"].replace("{site}", site) + lfn)
    return Counter((event.run, event.lumi, event.event) for event in read_events(path))
