"""Error replies of DBS: a list with one document that nests the reason."""

from __future__ import annotations

from lab.cms_world.messages import Call, Refused, json_reply

INSERT, VALIDATION, PARAMETERS = 110, 113, 118
BLOCK_EXISTS, PARENT_MISSING, UNKNOWN_ACCESS_TYPE = 200, 202, 408
ACCESS_TYPES = frozenset({"VALID", "INVALID", "PRODUCTION", "DEPRECATED", "DELETED"})


def refusal(call: Call, status: int, code: int, reason: str) -> Refused:
    document = {
        "error": {
            "reason": reason,
            "message": "",
            "function": f"dbs.{'.'.join(call.parts)}",
            "code": code,
            "stacktrace": "",
        },
        "http": {"method": call.method, "code": status, "timestamp": int(call.now), "path": call.target},
        "exception": status,
        "type": "HTTPError",
        "message": f"DBSError Code:{code} Error: {reason}",
    }
    return Refused(json_reply([document], status))
