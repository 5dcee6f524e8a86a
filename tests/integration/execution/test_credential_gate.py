"""Credentials in the lifecycle: the gate before a submission, alerts, and the token of WMS2 itself."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from django.utils import timezone

from condor.fake import FakeSchedd
from dags_app.credentials.files import read_validity
from dags_app.models import DAG, Workflow
from dags_app.planning.types import SitePool
from dags_app.services import credentials, production
from dags_app.services.credentials import CredentialUnavailable
from dags_app.states import DAGStatus
from requests_app.lifecycle.advance import advance
from requests_app.lifecycle.credential_gate import EXPIRING, keep_credentials
from requests_app.models import Alert, Request
from requests_app.states import RequestStatus
from tests.integration.execution.job_tokens import (
    LIFETIME_SEC,
    NOWHERE,
    claims_of,
    directory,
    files,
    issuer,
    later,
    token_of,
    workflow,
)
from tests.integration.factories import (
    make_file,
    make_request,
    make_site,
    make_workflow,
)
from tests.issuing import RunningIssuer, make_certificates
from wms2_project.models import GateNews
from wms2_project.wakeups import CREDENTIAL

pytestmark = pytest.mark.django_db
__all__ = ["directory", "issuer", "workflow"]  # fixtures


def planned(sites: SitePool, **values: Any) -> DAG:
    workflow = make_workflow(
        input_dataset=None,
        total_events=100,
        splitting_algo="EventBased",
        splitting_params={"events_per_job": 50},
        **values,
    )
    return production.plan_round(workflow=workflow, sites=sites, priority=5)


SITES = SitePool(names=frozenset({"T2_CH_CERN"}), by_storage={})


def test_a_dag_names_its_token_and_is_submitted_after_it_is_there(
    directory: Path, fake_schedd: FakeSchedd, settings: Any, tmp_path: Path
) -> None:
    settings.SUBMIT_ROOT = str(tmp_path)
    dag = planned(SITES)
    handle = UUID(str(dag.workflow_id)).hex
    assert f'My.OAuthServicesNeeded = "cms*{handle}"' in (Path(dag.submit_dir) / "proc.sub").read_text()
    assert files(directory) == []

    submitted = production.ensure_submitted(dag=dag, priority=0)

    assert submitted.status == DAGStatus.SUBMITTED
    assert files(directory) == [f"cms_{handle}.use"]
    text = b"".join(path.read_bytes() for path in Path(dag.submit_dir).rglob("*") if path.is_file())
    assert token_of(directory, dag.workflow).encode() not in text


def test_a_dag_is_not_submitted_without_its_token(
    fake_schedd: FakeSchedd, settings: Any, tmp_path: Path
) -> None:
    settings.SUBMIT_ROOT, settings.TOKEN_ISSUER = str(tmp_path), NOWHERE
    dag = planned(SITES)
    with pytest.raises(CredentialUnavailable, match="got no answer"):
        production.ensure_submitted(dag=dag, priority=0)

    assert fake_schedd.query_dags() == {}
    assert DAG.objects.get(pk=dag.pk).status == DAGStatus.READY


def test_a_request_waits_at_the_gate_and_continues_when_the_issuer_is_available(
    fake_schedd: FakeSchedd, issuer: RunningIssuer, settings: Any, tmp_path: Path
) -> None:
    settings.SUBMIT_ROOT, settings.TOKEN_ISSUER, settings.MIN_FREE_BYTES = str(tmp_path), NOWHERE, 0
    make_site()
    workflow = make_workflow(
        input_dataset=None,
        total_events=100,
        splitting_algo="EventBased",
        splitting_params={"events_per_job": 50},
        memory_mb=1000,
    )
    row = make_request(status=RequestStatus.PILOT_RUNNING, workflow=workflow)

    advance(row.pk)
    row.refresh_from_db()
    assert (row.status, row.wait_gate) == ("pilot_running", CREDENTIAL)
    assert "no token for jobs" in row.wait_reason
    assert fake_schedd.query_dags() == {}

    settings.TOKEN_ISSUER = issuer.url
    keep_credentials(now=timezone.now())
    assert GateNews.objects.filter(gate=CREDENTIAL).exists()
    advance(row.pk)
    row.refresh_from_db()
    assert len(fake_schedd.query_dags()) == 1


def test_an_alert_opens_before_tokens_end_and_closes_when_they_are_renewed(
    workflow: Workflow, issuer: RunningIssuer, settings: Any
) -> None:
    keep_credentials(now=timezone.now())
    settings.TOKEN_ISSUER = NOWHERE
    keep_credentials(now=later(2000))
    assert not Alert.objects.filter(kind=EXPIRING).exists()  # a failed renewal alone opens no alert yet
    keep_credentials(now=later(2800))

    alert = Alert.objects.get(kind=EXPIRING, closed_at=None)
    assert alert.subject == "job tokens"
    assert "the tokens of 1 request have ended or end soon: token issuer" in alert.message
    settings.TOKEN_ISSUER = issuer.url
    keep_credentials(now=later(2900))
    assert not Alert.objects.filter(kind=EXPIRING, closed_at=None).exists()


def test_a_proxy_of_jobs_that_ends_soon_stops_submissions_and_raises_an_alert(
    settings: Any, tmp_path: Path
) -> None:
    settings.TOKEN_ISSUER, settings.JOB_PROXY = "", str(tmp_path / "proxy.pem")
    row = make_request(status=RequestStatus.QUEUED)
    certificate = make_certificates(tmp_path / "other").host.read_bytes()

    keep_credentials(now=timezone.now())
    assert Alert.objects.get(kind=EXPIRING, closed_at=None).subject == "job proxy"
    obstacle = credentials.submission_obstacle(workflow=row.workflow, now=timezone.now())
    assert obstacle is not None
    assert "cannot be read" in obstacle.message
    assert settings.JOB_PROXY in obstacle.remedy

    Request.objects.update(wait_gate=CREDENTIAL)
    Path(settings.JOB_PROXY).write_bytes(certificate)
    keep_credentials(now=timezone.now())
    assert credentials.submission_obstacle(workflow=row.workflow, now=timezone.now()) is None
    assert not Alert.objects.filter(kind=EXPIRING, closed_at=None).exists()
    assert GateNews.objects.filter(gate=CREDENTIAL).exists()


@pytest.mark.parametrize("credential", ["token", "proxy"])
def test_a_dag_is_stopped_cleanly_before_the_credential_of_its_jobs_ends(
    workflow: Workflow, settings: Any, tmp_path: Path, credential: str
) -> None:
    row = make_request(status=RequestStatus.ACTIVE, workflow=workflow)
    life = float(LIFETIME_SEC)
    if credential == "token":
        keep_credentials(now=timezone.now())
        settings.TOKEN_ISSUER = NOWHERE
    else:
        settings.TOKEN_ISSUER, settings.JOB_PROXY = "", str(tmp_path / "proxy.pem")
        Path(settings.JOB_PROXY).write_bytes(make_certificates(tmp_path / "other").host.read_bytes())
        life = (read_validity(Path(settings.JOB_PROXY)).ends - timezone.now()).total_seconds()  # type: ignore[union-attr]
    settings.CREDENTIAL_STOP_SEC = 60

    keep_credentials(now=later(life - 100))
    row.refresh_from_db()
    assert row.status == RequestStatus.ACTIVE
    keep_credentials(now=later(life - 50))

    row.refresh_from_db()
    assert (row.status, row.hold_after_stop) == (RequestStatus.STOPPING, False)
    stopped = row.transitions.latest("at")
    assert (stopped.actor, credential in stopped.reason) == ("system:credentials", True)
    assert DAG.objects.get(workflow=workflow).stop_requested_at is not None
    keep_credentials(now=later(life - 40))  # it is stopped once


def shown(workflow: Workflow, now: datetime) -> str:
    """Return the token that WMS2 itself uses for the storage of the workflow's outputs."""
    with credentials.storage_of(workflow=workflow, now=now) as access:
        return access._token()


def test_wms2_gets_a_token_for_the_outputs_and_keeps_it_for_half_of_its_life(
    workflow: Workflow, settings: Any
) -> None:
    make_file(workflow, lfn="/store/data/Run2031A/Muons/RAW/v1/000/a.root")
    first = shown(workflow, timezone.now())
    again = shown(workflow, later(1700))
    renewed = shown(workflow, later(1900))

    assert (again == first, renewed == first) == (True, False)
    assert "RAW" not in claims_of(first)["scope"]
    assert (
        f"storage.modify:/store/unmerged/Run2031A/Muons/AOD/First-v1/{workflow.pk}"
        in claims_of(first)["scope"]
    )
    settings.TOKEN_ISSUER = ""
    assert shown(workflow, timezone.now()) == ""
