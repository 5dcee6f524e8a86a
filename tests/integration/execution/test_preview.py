"""A preview is the plan: same code, same jobs, nothing stored."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from django.utils import timezone
from rest_framework.test import APIClient

from dags_app.models import Workflow
from dags_app.planning.types import SitePool
from dags_app.services import production
from dags_app.services.input_files import resolve_input
from requests_app.models import Request
from requests_app.selectors.preview import preview_request
from requests_app.services.importing import import_request
from sites_app.models import Site
from sites_app.selectors import usable_sites
from sites_app.services.sites import sync_sites
from sites_app.states import SiteStatus

pytestmark = pytest.mark.django_db
ORACLE = Path(__file__).parents[2] / "unit/planning/oracle.json"


def planned_jobs(directory: Path) -> dict[str, Any]:
    jobs: dict[str, Any] = {}
    for manifest in sorted(directory.glob("mg_*/jobs.json")):
        jobs |= json.loads(manifest.read_text())["jobs"]
    return jobs


def previewed_jobs(body: dict[str, Any]) -> dict[str, Any]:
    keys = ("files", "generate", "mask", "events")
    return {job["node"]: {key: job[key] for key in keys} for group in body["groups"] for job in group["jobs"]}


LUMIS = {
    "SplittingAlgo": "LumiBased",
    "LumisPerJob": 2,
    "LumiList": {"381001": [[2, 17]], "381002": [[3, 9]]},
}
STOPPED = {"SplittingAlgo": "LumiBased", "splitting_params": {"lumis_per_job": 3, "total_lumis": 23}}


@pytest.mark.parametrize(
    ("kind", "changes"),
    [(1, {}), (2, {}), (2, LUMIS), (2, STOPPED)],
    ids=["generated", "data", "masked", "stopped early"],
)
def test_the_written_dag_is_its_preview(
    documents: list[dict[str, Any]], kind: int, changes: dict[str, Any]
) -> None:
    sync_sites(now=timezone.now())
    document = documents[kind] | changes
    preview = preview_request(document=document, now=timezone.now())
    assert not Request.objects.exists()
    made, _ = import_request(document=document, actor="user:ana", on_behalf=True)
    if not made.workflow.generates:
        resolve_input(workflow=made.workflow, now=timezone.now())
    sites = usable_sites(workflow=made.workflow, now=timezone.now())
    dag = production.plan_round(workflow=made.workflow, sites=sites, priority=0)
    assert planned_jobs(Path(dag.submit_dir)) == previewed_jobs(asdict(preview.body))
    assert preview.body.totals.jobs == dag.round.jobs


def test_the_api_previews_and_stores_nothing(requestor: APIClient, documents: list[dict[str, Any]]) -> None:
    sync_sites(now=timezone.now())
    answer = requestor.post("/api/v1/requests/plan", documents[2])
    assert answer.status_code == 200, answer.content
    body = answer.json()
    assert body["totals"]["events"] == 400
    assert (body["pilot_first"], body["totals"]["output_files"]) == (False, body["totals"]["groups"])
    assert not Workflow.objects.exists()


def test_a_call_is_shown_the_first_groups_of_a_large_plan_and_the_totals_of_all(
    requestor: APIClient, documents: list[dict[str, Any]]
) -> None:
    sync_sites(now=timezone.now())
    large = documents[1] | {"RequestNumEvents": 15_000, "FilterEfficiency": 1.0, "EventsPerJob": 1}
    answer = requestor.post("/api/v1/requests/plan", large)
    assert answer.status_code == 200, answer.content
    body = answer.json()
    assert (body["totals"]["jobs"], body["more_rounds"]) == (15_000, False)
    assert 9_000 < sum(len(group["jobs"]) for group in body["groups"]) <= 10_000
    assert body["groups_not_shown"] == body["totals"]["groups"] - len(body["groups"]) > 0


def test_a_plan_without_end_is_refused_with_the_cure(
    requestor: APIClient, documents: list[dict[str, Any]]
) -> None:
    sync_sites(now=timezone.now())
    endless = documents[1] | {"RequestNumEvents": 10**12, "FilterEfficiency": 1.0, "EventsPerJob": 1}
    answer = requestor.post("/api/v1/requests/plan", endless)
    assert answer.status_code == 422, answer.content
    assert "more than 100000 jobs" in answer.json()["detail"]
    assert "larger jobs" in answer.json()["cure"]


def test_a_bad_document_is_refused_field_by_field(
    requestor: APIClient, documents: list[dict[str, Any]]
) -> None:
    answer = requestor.post("/api/v1/requests/plan", documents[2] | {"SplittingAlgo": "ByMagic"})
    assert answer.status_code == 422
    assert "SplittingAlgo" in answer.json()["errors"]


def test_a_plan_no_site_can_take_is_a_conflict(requestor: APIClient, documents: list[dict[str, Any]]) -> None:
    Site.objects.update(status=SiteStatus.DRAINING)
    answer = requestor.post("/api/v1/requests/plan", documents[2])
    assert answer.status_code == 409
    assert "site" in answer.json()["detail"]
    assert "enable a site" in answer.json()["cure"]


def test_the_command_needs_no_service(tmp_path: Path, documents: list[dict[str, Any]]) -> None:
    case = json.loads(ORACLE.read_text())["cases"][0]
    (tmp_path / "doc.json").write_text(json.dumps(documents[0] | {"FilesPerJob": 2}))
    (tmp_path / "files.json").write_text(json.dumps(case["files"]))
    nowhere = {"DATABASE_URL": "postgres://absent@127.0.0.1:1/none", "REDIS_URL": "redis://127.0.0.1:1/0"}
    done = subprocess.run(
        [sys.executable, "manage.py", "plan", "--json",
         "--request", str(tmp_path / "doc.json"), "--files", str(tmp_path / "files.json")],
        cwd=Path(__file__).parents[3], env=os.environ | nowhere, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["totals"]["jobs"] == case["njobs"]


def test_the_ledger_accounts_for_every_file(
    viewer: APIClient, request_: Request, workflow: Workflow, sites: SitePool
) -> None:
    production.plan_round(workflow=workflow, sites=sites, priority=0)
    body = viewer.get(f"/api/v1/requests/{request_.request_name}/ledger").json()
    assert body["asked"] == {"files": 8, "events": 400}
    assert body["states"]["assigned"]["files"] == body["missing"]["files"] == 8
    assert body["missing"]["lumis"]
