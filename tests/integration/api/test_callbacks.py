"""Callbacks to a requestor's URL at the end of a request: signed, retried, delivered once."""

from __future__ import annotations

import json
from typing import Any

import pytest
from rest_framework.test import APIClient

from requests_app.lifecycle.due import claim_callbacks
from requests_app.models import Callback, Request
from requests_app.services.stopping import abort_request
from requests_app.states import CallbackStatus, RequestStatus
from requests_app.tasks import deliver_callback
from tests.integration.factories import DOCUMENT, make_request
from tests.integration.receiver import Receiver, is_signed

pytestmark = pytest.mark.django_db
SECRET = "shared with the receiver"


@pytest.fixture
def url(receiver: str, settings: Any) -> str:
    settings.CALLBACK_HOSTS, settings.CALLBACK_SECRET = ["localhost"], SECRET
    settings.ERROR_BACKOFF_BASE_SEC = 0.0
    return f"{receiver}/ended?job=7"


def ended(url: str) -> Request:
    row = make_request(status=RequestStatus.QUEUED, callback_url=url, correlation_id="order:7")
    return abort_request(request=row, actor="user:ana", reason="not needed")


def sweep() -> int:
    """Claim due callbacks and deliver them, as the worker does."""
    claims = claim_callbacks()
    for claim in claims:
        deliver_callback(str(claim.id))
    return len(claims)


def test_the_end_is_notified_once_with_a_valid_signature(url: str) -> None:
    row = ended(url)
    assert [sweep(), sweep()] == [1, 0]

    ((headers, body),) = Receiver.got
    answer_body = json.loads(body)
    assert (answer_body["request_id"], answer_body["status"], answer_body["correlation_id"]) == (
        str(row.pk),
        "aborted",
        "order:7",
    )
    assert is_signed(headers, body, secret=SECRET)
    done = Callback.objects.get()
    assert (headers["x-wms2-delivery"], done.status) == (str(done.pk), CallbackStatus.DELIVERED)
    assert done.delivered_at is not None


def test_an_outage_is_repeated_under_the_same_delivery_id(url: str) -> None:
    Receiver.answers = [503, 429]
    ended(url)
    assert [sweep(), sweep(), sweep(), sweep()] == [1, 1, 1, 0]
    assert len({headers["x-wms2-delivery"] for headers, _ in Receiver.got}) == 1
    assert (Callback.objects.get().status, Callback.objects.get().attempt) == (CallbackStatus.DELIVERED, 2)


@pytest.mark.parametrize("answer", [302, 400, 410])
def test_a_refusal_or_a_redirect_ends_it(url: str, answer: int) -> None:
    Receiver.answers = [answer]
    ended(url)
    assert [sweep(), sweep()] == [1, 0]
    row = Callback.objects.get()
    assert (row.status, len(Receiver.got)) == (CallbackStatus.GIVEN_UP, 1)
    assert str(answer) in row.last_error


def test_it_is_given_up_after_the_last_attempt(url: str, settings: Any) -> None:
    settings.CALLBACK_MAX_ATTEMPTS = 2
    Receiver.answers = [500, 500, 500]
    ended(url)
    assert [sweep(), sweep(), sweep()] == [1, 1, 0]
    assert Callback.objects.get().status == CallbackStatus.GIVEN_UP


def test_a_private_address_is_never_called(url: str, settings: Any) -> None:
    settings.CALLBACK_ALLOW_PRIVATE = False
    ended(url)
    sweep()
    assert Receiver.got == []
    assert "not a public address" in Callback.objects.get().last_error


def test_an_untrusted_certificate_is_refused(url: str, settings: Any) -> None:
    settings.CALLBACK_CA_BUNDLE = ""
    ended(url)
    sweep()
    assert Receiver.got == []
    assert "CERTIFICATE_VERIFY_FAILED" in Callback.objects.get().last_error


def test_without_a_url_no_callback_is_sent(url: str) -> None:
    abort_request(request=make_request(status=RequestStatus.QUEUED), actor="user:ana", reason="r")
    assert not Callback.objects.exists()


@pytest.mark.parametrize(
    "bad",
    ["https://evil.example.org/x", "http://localhost/x", "https://u:p@localhost/", "https://localhost.evil/"],
)
def test_only_trusted_hosts_are_accepted(requestor: APIClient, settings: Any, bad: str) -> None:
    settings.CALLBACK_HOSTS = ["localhost"]
    answer = requestor.post("/api/v1/requests", DOCUMENT | {"callback_url": bad})
    assert answer.status_code == 422
    assert set(answer.json()["errors"]) == {"callback_url"}
    good = requestor.post("/api/v1/requests", DOCUMENT | {"callback_url": "https://localhost:8443/x"})
    assert good.status_code == 201, good.json()
