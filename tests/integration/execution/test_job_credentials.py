"""The tokens of jobs: obtained before submission, renewed in time, removed with the last DAG."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from django.utils import timezone

from cms.token_issuer import IssuedToken
from condor.fake import FakeSchedd
from condor.submitfile import token_file_name
from dags_app.adapters import build_token_issuer
from dags_app.credentials.files import read_validity
from dags_app.credentials.scopes import InputTooScattered
from dags_app.models import DAG, JobToken, SecondaryDataset, Workflow
from dags_app.planning.types import SitePool
from dags_app.services import credentials, production
from dags_app.services.credentials import CredentialUnavailable
from dags_app.states import DAGStatus, FileState
from requests_app.lifecycle.advance import advance
from requests_app.lifecycle.credential_gate import EXPIRING, keep_credentials
from requests_app.models import Alert, Request
from requests_app.states import RequestStatus
from tests.integration.factories import (
    make_dag,
    make_file,
    make_request,
    make_round,
    make_site,
    make_workflow,
)
from tests.issuing import CLIENT_ID, RunningIssuer, lab_issuer, make_certificates
from wms2_project.models import GateNews
from wms2_project.wakeups import CREDENTIAL

pytestmark = pytest.mark.django_db
LIFETIME_SEC = 3600
NOWHERE = "https://localhost:1"


class Current:
    """The issuer that the settings name at each call."""

    def obtain(self, scopes: list[str]) -> IssuedToken:
        return build_token_issuer().obtain(scopes)


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return tmp_path / "oauth"


@pytest.fixture(autouse=True)
def issuer(
    tmp_path: Path, directory: Path, settings: Any, adapt: Callable[..., None]
) -> Iterator[RunningIssuer]:
    """A real issuer, and settings that lead to it."""
    certificates = make_certificates(tmp_path / "certificates")
    with lab_issuer(certificates, tmp_path) as running:
        settings.TOKEN_ISSUER = running.url
        settings.TOKEN_CLIENT_ID = CLIENT_ID
        settings.TOKEN_CLIENT_SECRET_FILE = str(running.secret_file)
        settings.TOKEN_CA_FILE = str(running.ca)
        settings.TOKEN_LIFETIME_SEC = LIFETIME_SEC
        settings.CREDENTIAL_DIR = str(directory)
        settings.BREAKER_FAILURES = 1000  # tests fail on purpose, and share the guard
        adapt(token_issuer=Current())
        yield running


@pytest.fixture
def workflow() -> Workflow:
    """A workflow with a DAG in the queue."""
    made = make_workflow()
    make_dag(make_round(made))
    return made


def token_of(directory: Path, workflow: Workflow) -> str:
    return (directory / token_file_name(str(workflow.pk))).read_text().strip()


def claims_of(token: str) -> dict[str, Any]:
    body = token.split(".")[1]
    claims: dict[str, Any] = json.loads(base64.urlsafe_b64decode(body + "=" * (-len(body) % 4)))
    return claims


def later(seconds: float) -> datetime:
    return timezone.now() + timedelta(seconds=seconds)


def renew(now: datetime | None = None) -> None:
    credentials.renew_tokens(now=now or timezone.now(), seconds=60)


def ensure(workflow: Workflow, now: datetime | None = None) -> None:
    credentials.ensure_token(workflow=workflow, now=now or timezone.now())


def files(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir()) if directory.exists() else []


def test_a_token_opens_the_input_and_the_own_outputs(directory: Path, workflow: Workflow) -> None:
    make_file(workflow, lfn="/store/data/Run2031A/Muons/RAW/v1/000/a.root")
    make_file(workflow, lfn="/store/data/Run2031A/Muons/RAW/v1/000/b.root")
    make_file(workflow, lfn="/store/data/Run2031A/Bad/RAW/v1/c.root", state=FileState.EXCLUDED)
    ensure(workflow)

    base = "Run2031A/Muons/AOD/First-v1"
    assert claims_of(token_of(directory, workflow))["scope"].split() == [
        f"storage.modify:/store/data/{base}",
        f"storage.modify:/store/unmerged/{base}/{workflow.pk}",
        f"storage.read:/store/data/{base}",
        "storage.read:/store/data/Run2031A/Muons/RAW/v1/000",
        f"storage.read:/store/unmerged/{base}/{workflow.pk}",
    ]


def test_the_files_of_secondary_datasets_are_opened_for_reading(workflow: Workflow) -> None:
    pileup, now = "/MinBias/Run3-Premix-v1/PREMIX", timezone.now()
    SecondaryDataset.objects.create(
        name=pileup, lfns=["/store/mc/Run3/MinBias/1/a.root"], resolved_at=now, located_at=now
    )
    workflow.secondary_input_datasets = [pileup]

    scopes = credentials.workflow_scopes(workflow=workflow)
    assert [scope for scope in scopes if "MinBias" in scope] == ["storage.read:/store/mc/Run3/MinBias/1"]


def test_the_file_is_private_and_the_row_holds_no_token(directory: Path, workflow: Workflow) -> None:
    ensure(workflow)

    path = directory / token_file_name(str(workflow.pk))
    row = JobToken.objects.get(workflow=workflow)
    assert path.stat().st_mode & 0o777 == 0o600
    assert token_of(directory, workflow) not in json.dumps(
        {name: str(value) for name, value in vars(row).items()}
    )
    assert row.expires_at is not None
    assert 0 < (row.expires_at - timezone.now()).total_seconds() <= LIFETIME_SEC


@pytest.mark.parametrize(("seconds", "renewed"), [(0, False), (1700, False), (1900, True), (4000, True)])
@pytest.mark.parametrize("by", [ensure, lambda _workflow, now: renew(now)], ids=["submission", "task"])
def test_a_token_is_renewed_when_half_of_its_life_is_over(
    directory: Path, workflow: Workflow, by: Callable[[Workflow, datetime], None], seconds: int, renewed: bool
) -> None:
    ensure(workflow)
    before = token_of(directory, workflow)
    by(workflow, later(seconds))

    assert (token_of(directory, workflow) != before) == renewed


@pytest.mark.parametrize("by", [ensure, lambda _workflow: renew()], ids=["submission", "task"])
def test_a_lost_file_is_written_again(
    directory: Path, workflow: Workflow, by: Callable[[Workflow], None]
) -> None:
    ensure(workflow)
    (directory / token_file_name(str(workflow.pk))).unlink()
    by(workflow)

    assert token_of(directory, workflow)


def test_input_that_came_later_is_in_the_token_of_the_next_submission(
    directory: Path, workflow: Workflow
) -> None:
    ensure(workflow)
    make_file(workflow, lfn="/store/data/Run2031B/Muons/RAW/v1/new.root")
    ensure(workflow)

    assert (
        "storage.read:/store/data/Run2031B/Muons/RAW/v1" in claims_of(token_of(directory, workflow))["scope"]
    )


@pytest.mark.parametrize("status", list(DAGStatus))
def test_only_workflows_with_a_live_dag_have_a_token(directory: Path, status: DAGStatus) -> None:
    workflow = make_workflow()
    make_dag(make_round(workflow), status=status)
    renew()

    live = status in ("ready", "submitted", "running", "halted")
    assert files(directory) == ([token_file_name(str(workflow.pk))] if live else [])


def test_a_token_is_removed_with_the_last_dag_and_others_stay(directory: Path, workflow: Workflow) -> None:
    other = make_workflow()
    make_dag(make_round(other))
    renew()
    DAG.objects.filter(workflow=workflow).update(status=DAGStatus.COMPLETED)
    renew()
    renew()

    assert files(directory) == [token_file_name(str(other.pk))]
    assert [token.workflow_id for token in JobToken.objects.all()] == [other.pk]


def test_without_an_issuer_nothing_is_written(directory: Path, workflow: Workflow, settings: Any) -> None:
    settings.TOKEN_ISSUER = ""
    ensure(workflow)
    renew()

    assert (files(directory), JobToken.objects.count()) == ([], 0)


@pytest.mark.parametrize("by", ["submission", "task"])
@pytest.mark.parametrize(
    ("setting", "value", "words"),
    [
        ("TOKEN_ISSUER", NOWHERE, "got no answer"),
        ("TOKEN_CLIENT_ID", "stranger", "invalid_client"),
        ("TOKEN_CLIENT_SECRET_FILE", "/nowhere/secret", "/nowhere/secret cannot be read"),
        ("CREDENTIAL_DIR", "/proc/unknown", "could not be written"),
    ],
)
def test_a_failure_is_recorded_with_its_remedy_and_submits_nothing(
    workflow: Workflow, settings: Any, setting: str, value: str, words: str, by: str
) -> None:
    setattr(settings, setting, value)
    if by == "submission":
        with pytest.raises(CredentialUnavailable, match=words):
            ensure(workflow)
    else:
        renew()

    obstacle = credentials.submission_obstacle(workflow=workflow, now=timezone.now())
    assert obstacle is not None
    assert words in obstacle.message
    assert obstacle.remedy
    assert obstacle.since is not None


def test_while_the_issuer_fails_a_token_with_a_quarter_of_its_life_is_enough(
    directory: Path, workflow: Workflow, settings: Any
) -> None:
    ensure(workflow)
    before = token_of(directory, workflow)
    settings.TOKEN_ISSUER = NOWHERE
    ensure(workflow, later(2000))
    assert credentials.submission_obstacle(workflow=workflow, now=later(2000)) is None
    with pytest.raises(CredentialUnavailable):
        ensure(workflow, later(2800))

    assert token_of(directory, workflow) == before  # jobs keep what they have
    assert credentials.submission_obstacle(workflow=workflow, now=later(2800)) is not None


def test_a_silent_issuer_is_asked_once_for_all_workflows(
    workflow: Workflow, settings: Any, adapt: Callable[..., None]
) -> None:
    for _ in range(5):
        make_dag(make_round(make_workflow()))
    settings.TOKEN_ISSUER = NOWHERE
    silent = build_token_issuer()
    asked: list[list[str]] = []

    class Counting:
        def obtain(self, scopes: list[str]) -> Any:
            asked.append(scopes)
            return silent.obtain(scopes)

    adapt(token_issuer=Counting())
    renew()

    assert len(asked) == 1
    assert JobToken.objects.exclude(error="").count() == 6


def test_a_renewal_after_a_failure_wakes_who_waited(
    workflow: Workflow, issuer: RunningIssuer, settings: Any
) -> None:
    settings.TOKEN_ISSUER = NOWHERE
    renew()
    assert not GateNews.objects.filter(gate=CREDENTIAL).exists()
    settings.TOKEN_ISSUER = issuer.url
    renew()

    assert GateNews.objects.filter(gate=CREDENTIAL).count() == 1
    assert credentials.submission_obstacle(workflow=workflow, now=timezone.now()) is None


def test_input_that_no_token_can_open_is_refused(workflow: Workflow) -> None:
    for number in range(11):
        make_file(workflow, lfn=f"/store/user/person{number}/a.root")

    with pytest.raises(InputTooScattered):
        ensure(workflow)


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


def test_a_request_waits_at_the_gate_and_goes_on_when_the_issuer_is_back(
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


def test_an_alert_comes_before_tokens_end_and_goes_when_they_are_renewed(
    workflow: Workflow, issuer: RunningIssuer, settings: Any
) -> None:
    keep_credentials(now=timezone.now())
    settings.TOKEN_ISSUER = NOWHERE
    keep_credentials(now=later(2000))
    assert not Alert.objects.filter(kind=EXPIRING).exists()  # a failed renewal alone is no news yet
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
    """The token that WMS2 itself shows to the storage of the workflow's outputs."""
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
