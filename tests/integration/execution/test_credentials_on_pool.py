"""Credentials reach real jobs through the submit files that WMS2 writes, and stay fresh while jobs run."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.utils import timezone

from condor.submitfile import token_file_name
from dags_app.adapters import schedd
from dags_app.models import DAG
from dags_app.planning.types import SitePool
from dags_app.services import credentials, production
from lab.grid.description import VARIABLE, Grid
from tests.contract.rucio_server.robot import make_robot
from tests.integration.factories import make_workflow
from tests.issuing import make_certificates
from tests.pool_dags import pool_sites
from tests.waiting import until

# Waiting for jobs inside a transaction would end in PostgreSQL's limit for idle ones.
pytestmark = pytest.mark.django_db(transaction=True)
# Keeps what it sees of its credential, once at its start and again when the file has changed.
WATCH = """
import json, os, time
directory, path = os.environ.get("_CONDOR_CREDS", ""), os.environ[VARIABLE]
def keep(name, text):
    seen = {"text": text, "path": path, "files": sorted(os.listdir(directory)) if directory else []}
    with open(f"{SEEN}.{name}.tmp", "w") as out:
        json.dump(seen, out)
    os.rename(f"{SEEN}.{name}.tmp", f"{SEEN}.{name}")
first = open(path).read()
keep("first", first)
end = time.time() + 600
while open(path).read() == first and time.time() < end:
    time.sleep(0.2)
keep("second", open(path).read())
time.sleep(600)
"""


@pytest.fixture(autouse=True)
def _stack_issuer(settings: Any) -> None:
    grid = Grid.load(Path(os.environ[VARIABLE]))
    settings.TOKEN_ISSUER = grid.issuer
    settings.TOKEN_LIFETIME_SEC = 3600


@pytest.fixture
def seen(tmp_path: Path) -> Path:
    return tmp_path / "seen"


def submit(seen: Path, variable: str) -> DAG:
    """Submit one job that watches the file this variable names."""
    program = f"SEEN, VARIABLE = {str(seen)!r}, {variable!r}\n{WATCH}"
    workflow = make_workflow(
        input_dataset=None,
        total_events=10,
        splitting_algo="EventBased",
        splitting_params={"events_per_job": 10},
        memory_mb=256,
        payload_config={"command": [sys.executable, "-S", "-c", program]},
    )
    sites = SitePool(names=frozenset(pool_sites()), by_storage={})
    dag = production.plan_round(workflow=workflow, sites=sites, priority=1_000_000)
    return production.ensure_submitted(dag=dag, priority=1_000_000)


def read(seen: Path, name: str, dag: DAG) -> dict[str, Any]:
    path = Path(f"{seen}.{name}")
    until(path.exists, seconds=600, why=f"see the logs in {dag.submit_dir}/mg_000000")
    found: dict[str, Any] = json.loads(path.read_text())
    return found


@pytest.fixture
def _clear() -> Iterator[None]:
    yield
    for dag in DAG.objects.all():
        schedd().remove_dag(dag.token, reason="the test is over", resumable=False)
        credentials.token_file(dag.workflow).unlink(missing_ok=True)


@pytest.mark.usefixtures("_clear")
def test_a_job_reads_the_token_of_its_workflow_and_the_renewed_one(seen: Path) -> None:
    dag = submit(seen, "BEARER_TOKEN_FILE")
    name = token_file_name(str(dag.workflow_id))
    first = credentials.token_file(dag.workflow).read_text()

    started = read(seen, "first", dag)
    assert (started["text"], started["files"], Path(started["path"]).name) == (first, [name], name)

    credentials.renew_tokens(now=timezone.now() + timedelta(seconds=2000), seconds=60)
    renewed = credentials.token_file(dag.workflow).read_text()
    assert renewed != first
    assert read(seen, "second", dag)["text"] == renewed


@pytest.mark.usefixtures("_clear")
def test_a_job_gets_the_proxy_and_the_renewed_one(settings: Any, seen: Path, tmp_path: Path) -> None:
    certificates = make_certificates(tmp_path / "certificates")
    proxy = make_robot(certificates, tmp_path).proxy
    settings.TOKEN_ISSUER, settings.JOB_PROXY = "", str(proxy)
    dag = submit(seen, "X509_USER_PROXY")

    assert read(seen, "first", dag)["text"] == proxy.read_text()

    (tmp_path / "next").mkdir()
    renewed = make_robot(certificates, tmp_path / "next").proxy
    later = time.time() + 60  # HTCondor sends a file that is newer than the job's, by whole seconds
    os.utime(renewed, (later, later))
    os.replace(renewed, proxy)
    assert read(seen, "second", dag)["text"] == proxy.read_text()
