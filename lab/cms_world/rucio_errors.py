"""Error replies of Rucio: class and message as headers and in the body."""

from __future__ import annotations

import json

from lab.cms_world.messages import BYTES, Call, Refused, Reply

SCOPE = "cms"
MAX_HEADER = 120


def refusal(status: int, error_class: str, message: str) -> Refused:
    document = {"ExceptionClass": error_class, "ExceptionMessage": message}
    header = " ".join(message.split())
    short = header if len(header) <= MAX_HEADER else f"{header[:MAX_HEADER]}..."
    headers = {"ExceptionClass": error_class, "ExceptionMessage": short}
    return Refused(Reply(status, json.dumps(document).encode(), BYTES, headers))


def no_such(call: Call) -> Refused:
    return refusal(404, "NotFound", f"no {call.method} {call.target}")


def not_found(name: str) -> Refused:
    return refusal(404, "DataIdentifierNotFound", f"Data identifier '{SCOPE}:{name}' not found")
