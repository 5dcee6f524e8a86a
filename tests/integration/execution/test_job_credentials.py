"""The tokens of jobs: obtained before submission, renewed in time, removed with the last DAG."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from django.utils import timezone

from condor.submitfile import token_file_name
from dags_app.adapters import build_token_issuer
from dags_app.credentials.scopes import InputTooScattered
from dags_app.models import DAG, JobToken, SecondaryDataset, Workflow
from dags_app.services import credentials
from dags_app.services.credentials import CredentialUnavailable
from dags_app.states import DAGStatus, FileState
from tests.integration.execution.job_tokens import (
    LIFETIME_SEC,
    NOWHERE,
    claims_of,
    directory,
    ensure,
    files,
    issuer,
    later,
    renew,
    token_of,
    workflow,
)
from tests.integration.factories import (
    make_dag,
    make_file,
    make_round,
    make_workflow,
)
from tests.issuing import RunningIssuer
from wms2_project.models import GateNews
from wms2_project.wakeups import CREDENTIAL

pytestmark = pytest.mark.django_db
__all__ = ["directory", "issuer", "workflow"]  # fixtures


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
def test_only_workflows_with_a_running_dag_have_a_token(directory: Path, status: DAGStatus) -> None:
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


def test_an_issuer_that_does_not_answer_is_called_once_for_all_workflows(
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


def test_a_renewal_after_a_failure_wakes_the_waiting_requests(
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
