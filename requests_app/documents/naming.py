"""Request names in the style of ReqMgr2: requestor_RequestString_date_time_number."""

from __future__ import annotations

import secrets
from datetime import UTC, datetime

from wms2_project.grammar import Name, check

MAX_STRING = 130
MAX_REQUESTOR = 40


def compose_name(*, requestor: str, request_string: str, now: datetime, number: int) -> str:
    """Return the name of these parts; long parts are truncated."""
    stamp = now.astimezone(UTC).strftime("%y%m%d_%H%M%S")
    name = f"{requestor[:MAX_REQUESTOR]}_{request_string[:MAX_STRING]}_{stamp}_{number % 10_000:04d}"
    return check(Name.REQUEST, name, field="request_name")


def fresh_name(requestor: str, request_string: str) -> str:
    """Return a name for a request created now, with a random number."""
    return compose_name(
        requestor=requestor,
        request_string=request_string,
        now=datetime.now(UTC),
        number=secrets.randbelow(10_000),
    )
