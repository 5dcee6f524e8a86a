"""Who changed what, and why: written in the transaction of the change itself."""

from __future__ import annotations

from typing import Any

from wms2_project.errors import InvalidInput
from wms2_project.logs import current_request_id
from wms2_project.models import AuditEvent


def need_reason(reason: str) -> None:
    """Refuse to act without one."""
    if not reason.strip():
        raise InvalidInput("a reason is needed", fields={"reason": "say why, for those who come after"})


def record(*, actor: str, action: str, target: str, reason: str, **detail: Any) -> None:
    """Keep who did this to what, and why."""
    need_reason(reason)
    AuditEvent.objects.create(
        actor=actor,
        action=action,
        target=target,
        reason=reason,
        detail=detail,
        request_id=current_request_id(),
    )
