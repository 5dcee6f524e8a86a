"""Callbacks: notify the requestor's URL of the end of a request, signed, with retries, once per end.

The row is written in the transaction that ends the request and delivered by the sweep. A receiver recognises
a repeated delivery by its id.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import logging
from collections.abc import Mapping
from datetime import datetime
from typing import Any
from urllib.parse import urlsplit
from uuid import UUID

from django.conf import settings

from cms.callback import CallbackRefused, post_once
from requests_app.models import Callback, CallbackRow, Request
from requests_app.states import CallbackStatus
from wms2_project.access.causes import caused
from wms2_project.errors import InvalidInput, Wms2Error
from wms2_project.leases import backoff_seconds, release, working_on
from wms2_project.locks import try_lock

HTTPS = 443
logger = logging.getLogger(__name__)


def check_url(url: str) -> None:
    """Raise InvalidInput unless host and port of the callback are allowed. The grammar checks the rest.

    A host in WMS2_CALLBACK_HOSTS stands for its port 443, host:port for that port.
    """
    parts = urlsplit(url)
    host, port = parts.hostname or "", parts.port or HTTPS
    entry = host if port == HTTPS or settings.CALLBACK_ANY_PORT else f"{host}:{port}"
    if entry not in settings.CALLBACK_HOSTS:
        message = f"{entry} is not an allowed callback host"
        raise InvalidInput(
            f"callback_url: {message}",
            fields={"callback_url": message},
            cure="Omit callback_url, or ask an administrator to add the host to WMS2_CALLBACK_HOSTS",
        )


def deliver_callback(*, callback_id: UUID | str, now: datetime) -> None:
    """Try one delivery. Failures are retried later; a refusal or too many failures end the callback."""
    with try_lock(f"callback {callback_id}") as held:
        if not held:
            return
        row = Callback.objects.select_related("request").get(pk=callback_id)
        if row.status != CallbackStatus.PENDING:
            return
        notice = build_notice(row.request, event=row.event)
        deliver_notice(
            row, target=row.request.request_name, url=row.request.callback_url, notice=notice, now=now
        )


def deliver_notice(
    row: CallbackRow, *, target: str, url: str, notice: Mapping[str, Any], now: datetime
) -> None:
    """Send a notice once and record the outcome on its row."""
    with caused("deliver callback", target=target), working_on(row):
        try:
            _send(row, url, notice, now)
        except Wms2Error as error:
            logger.warning("callback: %s", error)
            _record_failure(row, error, now)
        else:
            release(row, seconds=0, status=CallbackStatus.DELIVERED, delivered_at=now, last_error="")


def _send(row: CallbackRow, url: str, notice: Mapping[str, Any], now: datetime) -> None:
    body = json.dumps(notice, sort_keys=True).encode()
    stamp = str(int(now.timestamp()))
    check_url(url)  # the host may have been removed from the list
    post_once(
        url,
        body,
        headers={
            "Content-Type": "application/json",
            "X-WMS2-Delivery": str(row.pk),
            "X-WMS2-Timestamp": stamp,
            "X-WMS2-Signature": sign(body, stamp=stamp, secret=settings.CALLBACK_SECRET),
        },
        ca_path=settings.CALLBACK_CA_BUNDLE,
        allow_private=settings.CALLBACK_ALLOW_PRIVATE,
    )


def build_notice(request: Request, *, event: str) -> dict[str, Any]:
    """Build the notification body. Details are available at its public URL."""
    return {
        "request_id": str(request.pk),
        "request_name": request.request_name,
        "correlation_id": request.correlation_id,
        "status": event,
        "ended_at": request.status_since.isoformat(),
        "url": f"/api/v1/public/requests/{request.pk}",
    }


def sign(body: bytes, *, stamp: str, secret: str) -> str:
    """Return the HMAC-SHA256 of time and body, which prevents changes and replays."""
    return "sha256=" + hmac.new(secret.encode(), f"{stamp}.".encode() + body, hashlib.sha256).hexdigest()


def _record_failure(row: CallbackRow, error: Wms2Error, now: datetime) -> None:
    attempt = row.attempt + 1
    over = isinstance(error, CallbackRefused | InvalidInput) or attempt >= settings.CALLBACK_MAX_ATTEMPTS
    changes: dict[str, Any] = {"status": CallbackStatus.GIVEN_UP} if over else {}
    release(
        row,
        seconds=backoff_seconds(attempt),
        attempt=attempt,
        last_error=str(error)[:4000],
        last_error_at=now,
        **changes,
    )
