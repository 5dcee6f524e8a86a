"""Callbacks at the end of chains, signed and retried like those of requests."""

from __future__ import annotations

from datetime import datetime
from typing import Any
from uuid import UUID

from chains_app.models import Chain, ChainCallback
from requests_app.services.callbacks import deliver_notice
from requests_app.states import CallbackStatus
from wms2_project.locks import try_lock


def deliver_callback(*, callback_id: UUID | str, now: datetime) -> None:
    """Try one delivery. Failures are retried later; a refusal or too many failures end the callback."""
    with try_lock(f"chain callback {callback_id}") as held:
        if not held:
            return
        row = ChainCallback.objects.select_related("chain__announcement", "chain__template").get(
            pk=callback_id
        )
        if row.status == CallbackStatus.PENDING:
            url = row.chain.announcement.callback_url
            deliver_notice(row, target=str(row.chain), url=url, notice=build_notice(row.chain), now=now)


def build_notice(chain: Chain) -> dict[str, Any]:
    """Build the notification body of an ended chain."""
    return {
        "chain": chain.pk,
        "template": chain.template.name,
        "template_version": chain.template.version,
        "dataset": chain.announcement.dataset_name,
        "uid": chain.announcement.uid,
        "correlation_id": chain.announcement.correlation_id,
        "status": chain.status,
        "ended_at": chain.status_since.isoformat(),
    }
