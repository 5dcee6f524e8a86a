"""Ship the head of the audit chain to a place that database administrators cannot change."""

from __future__ import annotations

import json
import logging
import socket
from urllib.parse import urlsplit

from django.conf import settings

from cms.callback import post_once
from wms2_project.errors import Wms2Error
from wms2_project.models import AuditHead

logger = logging.getLogger(__name__)
SYSLOG_PORT = 514
SYSLOG_PRIORITY = 10 * 8 + 5  # authpriv.notice


def ship_audit_head() -> bool:
    """Send the head to WMS2_AUDIT_HEAD_URL if it changed since the last time. Return whether it was sent.

    A failure is logged and retried at the next tidy-up; health reports it if it lasts.
    """
    head = AuditHead.objects.first() if settings.AUDIT_HEAD_URL else None
    if head is None or head.shipped >= head.number:
        return False
    try:
        _send(head)
    except (Wms2Error, OSError) as error:
        logger.warning("audit head %s was not shipped: %s", head.number, error)
        return False
    AuditHead.objects.filter(shipped__lt=head.number).update(shipped=head.number)
    return True


def _send(head: AuditHead) -> None:
    url = urlsplit(settings.AUDIT_HEAD_URL)
    if url.scheme == "syslog":
        address = (url.hostname, url.port or SYSLOG_PORT) if url.hostname else url.path
        _log(address, f"wms2: audit head {head}")
        return
    body = {"number": head.number, "seal": head.seal, "head": str(head)}
    post_once(
        settings.AUDIT_HEAD_URL,
        json.dumps(body).encode(),
        headers={"Content-Type": "application/json"},
        ca_path=settings.CALLBACK_CA_BUNDLE,
        allow_private=True,  # set by the administrator
    )


def _log(address: tuple[str, int] | str, message: str) -> None:
    family = socket.AF_UNIX if isinstance(address, str) else socket.AF_INET
    with socket.socket(family, socket.SOCK_DGRAM) as sender:
        sender.sendto(f"<{SYSLOG_PRIORITY}>{message}".encode(), address)
