"""Restart: the next version, its links and names, the limit, and the treatment of old outputs."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone
from rest_framework.test import APIClient

from dags_app.models import Workflow
from outputs_app.models import OutputDataset
from requests_app.lifecycle.maintenance import tidy_up
from requests_app.models import Request
from requests_app.services.importing import import_request
from requests_app.services.restarting import restart_request, retire_replaced_outputs
from requests_app.states import CleanupPolicy, RequestStatus
from tests.integration.factories import DOCUMENT, make_dag, make_request, make_round
from wms2_project.models import AuditEvent

pytestmark = pytest.mark.django_db
S = RequestStatus


def imported(status: RequestStatus = S.ACTIVE, **changes: Any) -> Request:
    made, _ = import_request(document=DOCUMENT | changes, actor="user:ana")
    Request.objects.filter(pk=made.pk).update(status=status)
    return Request.objects.select_related("workflow").get(pk=made.pk)


def restart(client: APIClient, name: str, **body: Any) -> Any:
    return client.post(f"/api/v1/requests/{name}/restart", {"reason": "the schedd is lost"} | body)


def test_the_next_version_has_new_names_and_both_refer_to_each_other(operator: APIClient) -> None:
    old = imported()
    dag = make_dag(make_round(old.workflow))

    answer = restart(operator, old.request_name)

    assert answer.status_code == 201, answer.json()
    body = answer.json()
    assert body["previous"]["status"] == "failed"
    assert body["current"]["status"] == "submitted"
    assert body["output_datasets"] == ["/Muons/Run2031A-First-v2/AOD"]
    new = Request.objects.get(request_name=body["current"]["request_name"])
    old.refresh_from_db()
    dag.refresh_from_db()
    assert new.request_name == f"{old.request_name}_v2"
    assert (new.previous_version, old.superseded_by) == (old, new)
    assert (new.processing_version, new.workflow.processing_version) == (2, 2)
    assert (new.requestor, new.submitted_by, new.source) == ("ana", "olga", "restart")
    assert dag.stop_requested_at is not None
    assert AuditEvent.objects.get(action="restart").detail["new"] == new.request_name
    last = old.transitions.last()
    assert last is not None
    assert (last.actor, last.reason) == ("user:olga", "the schedd is lost")


def test_changes_since_the_import_are_kept(operator: APIClient) -> None:
    old = imported(S.HELD)
    beside = {"correlation_id": "order:7", "callback_url": "https://portal.example.org/done"}
    Request.objects.filter(pk=old.pk).update(priority=77, **beside)
    Workflow.objects.filter(pk=old.workflow_id).update(memory_mb=3456, site_blacklist=["T2_CH_CERN"])
    restart(operator, old.request_name)
    new = Request.objects.get(previous_version=old)
    assert (new.priority, new.rank) == (77, 77.0)
    assert {name: getattr(new, name) for name in beside} == beside
    assert (new.workflow.memory_mb, new.workflow.site_blacklist) == (3456, ["T2_CH_CERN"])


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (S.SUBMITTED, S.ABORTED), (S.QUEUED, S.ABORTED), (S.PILOT_RUNNING, S.ABORTED),
        (S.PLANNING, S.ABORTED), (S.ACTIVE, S.FAILED), (S.PARTIAL, S.ABORTED), (S.STOPPING, S.FAILED),
        (S.RESUBMITTING, S.ABORTED), (S.HELD, S.FAILED), (S.COMPLETED, S.COMPLETED), (S.FAILED, S.FAILED),
        (S.ABORTED, S.ABORTED),
    ],
)  # fmt: skip
def test_every_status_but_a_draft_can_be_restarted(
    operator: APIClient, before: RequestStatus, after: RequestStatus
) -> None:
    old = imported(before)
    assert restart(operator, old.request_name).status_code == 201
    old.refresh_from_db()
    assert old.status == after


def test_a_draft_and_a_replaced_request_are_refused(operator: APIClient) -> None:
    draft = imported(S.NEW)
    assert "draft" in restart(operator, draft.request_name).json()["detail"]
    Request.objects.filter(pk=draft.pk).update(status=S.ACTIVE)
    first = restart(operator, draft.request_name)
    again = restart(operator, draft.request_name)
    assert (first.status_code, again.status_code) == (201, 409)
    assert f"{draft.request_name}_v2" in again.json()["detail"]
    assert Request.objects.count() == 2


def test_a_fourth_restart_is_refused_and_changes_nothing(operator: APIClient) -> None:
    name = imported().request_name
    for version in (2, 3, 4):
        answer = restart(operator, name)
        assert answer.status_code == 201, answer.json()
        name = answer.json()["current"]["request_name"]
        assert name.endswith(f"2031A_v1_v{version}")

    refused = restart(operator, name)

    assert refused.status_code == 409
    assert "at most 3" in refused.json()["detail"]
    assert Request.objects.get(request_name=name).status == S.SUBMITTED
    versions = operator.get(f"/api/v1/requests/{name}/versions").json()
    assert versions["current"]["processing_version"] == 4
    assert [row["processing_version"] for row in versions["versions"]] == [3, 2, 1]
    assert versions["versions"][-1]["superseded_by"].endswith("_v2")


@pytest.mark.parametrize(
    ("policy", "fate"), [("keep_until_replaced", "superseded"), ("immediate_cleanup", "invalidated")]
)
def test_old_outputs_stay_valid_until_the_new_version_is_complete(policy: str, fate: str) -> None:
    first = imported()
    dataset = OutputDataset.objects.create(
        workflow=first.workflow, dataset_name="/Muons/Run2031A-First-v1/AOD"
    )
    second = restart_request(request=first, actor="user:olga", reason="lost")
    third = restart_request(
        request=second, actor="user:olga", reason="lost again", cleanup_policy=CleanupPolicy(policy)
    )
    own = OutputDataset.objects.create(workflow=third.workflow, dataset_name="/Muons/Run2031A-First-v3/AOD")
    now = timezone.now()

    assert retire_replaced_outputs(now=now) == 0
    dataset.refresh_from_db()
    assert dataset.status == "active"

    Request.objects.filter(pk=third.pk).update(status=S.COMPLETED)
    assert retire_replaced_outputs(now=now) == 1
    assert retire_replaced_outputs(now=now) == 0
    dataset.refresh_from_db()
    own.refresh_from_db()
    assert (dataset.status, own.status) == (fate, "active")
    retired = AuditEvent.objects.get(actor="system:restart")
    assert third.request_name in retired.reason


def test_datasets_superseded_by_one_version_are_not_invalidated_by_a_later_one() -> None:
    first = imported()
    dataset = OutputDataset.objects.create(
        workflow=first.workflow, dataset_name="/Muons/Run2031A-First-v1/AOD"
    )
    second = restart_request(request=first, actor="user:olga", reason="lost")
    Request.objects.filter(pk=second.pk).update(status=S.COMPLETED)
    second.refresh_from_db()
    assert retire_replaced_outputs(now=timezone.now()) == 1
    dataset.refresh_from_db()
    assert dataset.status == "superseded"
    third = restart_request(
        request=second, actor="user:olga", reason="wrong", cleanup_policy=CleanupPolicy.IMMEDIATE_CLEANUP
    )
    assert retire_replaced_outputs(now=timezone.now()) == 0
    Request.objects.filter(pk=third.pk).update(status=S.COMPLETED)
    assert retire_replaced_outputs(now=timezone.now()) == 0
    dataset.refresh_from_db()
    assert dataset.status == "superseded"


def test_replaced_outputs_are_found_from_the_few_complete_restarts_and_not_from_all_history() -> None:
    first = imported()
    OutputDataset.objects.create(workflow=first.workflow, dataset_name="/Muons/Run2031A-First-v1/AOD")
    second = restart_request(request=first, actor="user:olga", reason="lost")
    Request.objects.filter(pk=second.pk).update(status=S.COMPLETED)
    for _ in range(100):  # among few rows every index is as good
        make_request(status=S.COMPLETED)
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE requests_app_request; SET LOCAL enable_seqscan = off")
    with CaptureQueriesContext(connection) as asked:
        retire_replaced_outputs(now=timezone.now())
    finding = [one["sql"] for one in asked if "outputdataset" in one["sql"]]
    with connection.cursor() as cursor:
        cursor.execute(f"EXPLAIN {finding[0]}")
        plan = "\n".join(row[0] for row in cursor.fetchall())
    assert "request_complete_restart" in plan, plan


def test_replaced_outputs_are_retired_when_wms2_tidies_up() -> None:
    first = imported()
    dataset = OutputDataset.objects.create(
        workflow=first.workflow, dataset_name="/Muons/Run2031A-First-v1/AOD"
    )
    second = restart_request(request=first, actor="user:olga", reason="lost")
    Request.objects.filter(pk=second.pk).update(status=S.COMPLETED)
    tidy_up(now=timezone.now())
    dataset.refresh_from_db()
    assert dataset.status == "superseded"
