"""Operator actions on chains and dead letters: effects, refusals, and the audit."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone
from rest_framework.test import APIClient

from chains_app.models import Announcement, Chain
from chains_app.services.announcing import announce
from chains_app.services.deadlines import raise_overdue
from chains_app.services.sweeping import claim_callbacks
from chains_app.states import ChainStatus
from chains_app.tasks import deliver_callback
from requests_app.models import Alert, Request
from requests_app.states import RequestStatus
from tests.integration.admin.test_actions import press
from tests.integration.chains.conftest import RAW, advanced, end_request, make_actual, start, statuses
from tests.integration.chains.documents import LINEAR
from tests.integration.factories import ago, make_template
from tests.integration.receiver import Receiver, is_signed
from wms2_project.models import AuditEvent

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("fake_dbs")]
APPROVAL = LINEAR.replace("tier: AOD, ", "tier: AOD, approval: true, ", 1)


def act(client: APIClient, chain: Chain, name: str, *, expect: int = 200, **body: Any) -> dict[str, Any]:
    answer = client.post(f"/api/v1/chains/{chain.pk}/{name}", {"reason": "because", **body}, format="json")
    assert answer.status_code == expect, answer.content
    chain.refresh_from_db()
    return dict(answer.json())


def test_cancel_aborts_running_requests_and_keeps_every_dataset(operator: APIClient) -> None:
    make_actual(cleanup="safe")
    chain = advanced(start())
    end_request(chain, "skim")
    advanced(chain)

    act(operator, chain, "cancel")

    assert chain.status == ChainStatus.CANCELLED
    assert statuses(chain) == {"skim": "finished", "slim": "cancelled", "join": "cancelled"}
    assert Request.objects.get(request_name__contains="slim").status == RequestStatus.ABORTED
    assert not chain.datasets.filter(status__in=["removing", "removed"]).exists()
    assert AuditEvent.objects.filter(target=str(chain), action="cancelled", actor="user:olga").exists()
    act(operator, chain, "cancel", expect=409)


def test_retry_of_a_failed_step_makes_a_new_request_with_new_names(operator: APIClient) -> None:
    make_actual()
    chain = advanced(start())
    act(operator, chain, "retry", step="skim", expect=409)
    end_request(chain, "skim", RequestStatus.FAILED)
    advanced(chain)

    act(operator, chain, "retry", step="skim")
    advanced(chain)

    step = chain.steps.get(step="skim")
    assert (step.status, step.tries, chain.status) == ("running", 2, ChainStatus.RUNNING)
    assert Request.objects.count() == 2
    names = [tuple(one.workflow.output_datasets) for one in Request.objects.select_related("workflow")]
    assert len(set(names)) == 2
    end_request(chain, "skim")
    assert statuses(advanced(chain))["slim"] == "running"


def test_retry_is_refused_while_the_request_can_be_released(operator: APIClient) -> None:
    make_actual()
    chain = advanced(start())
    end_request(chain, "skim", RequestStatus.HELD)
    advanced(chain)

    refused = act(operator, chain, "retry", step="skim", expect=409)

    assert "Release the request" in refused["cure"]


def test_null_of_a_skipped_step_holds_a_chain_that_requires_the_input(operator: APIClient) -> None:
    make_actual()
    chain = advanced(start())

    act(operator, chain, "skip", step="skim")
    advanced(chain)

    assert Request.objects.get().status == RequestStatus.ABORTED
    assert statuses(chain)["skim"] == "skipped"
    assert chain.status == ChainStatus.HELD
    act(operator, chain, "skip", step="slim")
    act(operator, chain, "skip", step="join")
    assert advanced(chain).status == ChainStatus.FINISHED
    act(operator, chain, "skip", step="nothing", expect=409)


def test_step_that_needs_approval_starts_only_when_it_is_approved(operator: APIClient) -> None:
    make_actual(APPROVAL)
    chain = advanced(start())
    assert Request.objects.count() == 0
    act(operator, chain, "approve", step="slim", expect=409)

    act(operator, chain, "approve", step="skim")

    assert statuses(advanced(chain))["skim"] == "running"
    assert chain.steps.get(step="skim").approved_by == "user:olga"


def test_rejected_step_is_held_and_can_be_retried(operator: APIClient) -> None:
    make_actual(APPROVAL)
    chain = advanced(start())

    act(operator, chain, "reject", step="skim")
    advanced(chain)

    assert chain.status == ChainStatus.HELD
    assert chain.hold_evidence is not None
    assert "rejected by user:olga" in chain.hold_evidence["steps"][0]["reason"]
    act(operator, chain, "retry", step="skim")
    act(operator, chain, "approve", step="skim")
    assert statuses(advanced(chain))["skim"] == "running"


def test_unknown_step_and_missing_reason_are_refused(operator: APIClient) -> None:
    make_actual()
    chain = advanced(start())

    act(operator, chain, "skip", step="nothing", expect=404)
    act(operator, chain, "skip", step="skim", reason=" ", expect=422)


@pytest.mark.parametrize(
    ("name", "status"),
    [("cancel", "cancelled"), ("skip", "skipped"), ("approve", "defined"), ("reject", "held"),
     ("retry", "defined")],
)  # fmt: skip
def test_console_buttons_do_the_same(console: Client, name: str, status: str) -> None:
    make_actual(APPROVAL if name in ("approve", "reject") else LINEAR)
    chain = advanced(start())
    if name == "retry":
        end_request(chain, "skim", RequestStatus.FAILED)
        advanced(chain)

    more = {} if name == "cancel" else {"step": "skim"}
    answer = press(console, chain, name, reason="because", **more)

    assert answer.status_code == 302
    assert statuses(chain)["skim"] == status
    assert AuditEvent.objects.filter(actor="user:adam", reason="because").exists()


@pytest.mark.parametrize("name", ["cancel", "retry", "skip", "approve", "reject"])
def test_an_ended_chain_offers_and_accepts_no_operation(
    console: Client, operator: APIClient, name: str
) -> None:
    make_actual()
    chain = advanced(start())
    act(operator, chain, "cancel")

    refused = act(operator, chain, name, expect=409, **({} if name == "cancel" else {"step": "skim"}))

    assert "cancelled" in refused["detail"]
    page = console.get(f"/admin/chains_app/chain/{chain.pk}/change/").content.decode()
    assert f"/{name}/" not in page


def test_dead_letters_are_replayed_one_by_one_or_all_that_match_now(operator: APIClient) -> None:
    dead = [announce(uid=str(number), name=RAW, actor="user:ana") for number in range(3)]
    other = announce(uid="other", name="/Electrons/A-v1/RAW", actor="user:ana")
    still = operator.post(f"/api/v1/announcements/{dead[0].pk}/replay", {"reason": "r"}, format="json")
    assert still.json()["status"] == "dead_letter"
    make_template("first")

    one = operator.post(f"/api/v1/announcements/{dead[0].pk}/replay", {"reason": "r"}, format="json")
    rest = operator.post("/api/v1/announcements/replay", {"reason": "r"}, format="json")

    assert one.json()["status"] == "matched"
    assert rest.json() == {"replayed": 2}
    assert Chain.objects.count() == 3
    again = operator.post(f"/api/v1/announcements/{dead[0].pk}/replay", {"reason": "r"}, format="json")
    assert again.status_code == 409
    dropped = operator.post(f"/api/v1/announcements/{other.pk}/drop", {"reason": "r"}, format="json")
    assert dropped.json()["status"] == "dropped"
    assert Announcement.objects.filter(status="dead_letter").count() == 0


def test_step_past_its_deadline_is_an_alert_until_it_ends() -> None:
    make_actual(LINEAR.replace("tier: AOD, ", "tier: AOD, deadline_hours: 1, ", 1))
    chain = advanced(start())
    assert raise_overdue(now=timezone.now()) == 0
    chain.steps.filter(step="skim").update(deadline_at=ago(minutes=1))

    assert raise_overdue(now=timezone.now()) == 1

    alert = Alert.objects.get(kind="chain_step_deadline")
    assert "step skim" in alert.message
    end_request(chain, "skim")
    advanced(chain)
    raise_overdue(now=timezone.now())
    alert.refresh_from_db()
    assert alert.closed_at is not None


def deliver_callbacks() -> int:
    claims = claim_callbacks()
    for claim in claims:
        deliver_callback(str(claim.id))
    return len(claims)


def test_end_of_a_chain_is_delivered_once_signed_and_retried(receiver: str, settings: Any) -> None:
    settings.CALLBACK_HOSTS, settings.CALLBACK_SECRET = ["localhost"], "shared"
    settings.ERROR_BACKOFF_BASE_SEC = 0.0
    template = make_actual()
    chain = advanced(start(callback_url=f"{receiver}/done", correlation_id="order:7"))
    for step in ("skim", "slim", "join"):
        assert deliver_callbacks() == 0, "it has not ended"
        end_request(chain, step)
        advanced(chain)
    Receiver.answers = [503]

    assert [deliver_callbacks() for _ in range(3)] == [1, 1, 0]

    assert len({headers["x-wms2-delivery"] for headers, _ in Receiver.got}) == 1
    headers, body = Receiver.got[-1]
    assert is_signed(headers, body, secret="shared")
    assert json.loads(body) == {
        "chain": chain.pk, "template": template.name, "template_version": template.version, "dataset": RAW,
        "uid": "1", "correlation_id": "order:7", "status": "finished",
        "ended_at": chain.status_since.isoformat(),
    }  # fmt: skip
    chain.callback.refresh_from_db()
    assert (chain.callback.status, chain.callback.attempt) == ("delivered", 1)
