"""The errors WMS2 raises, each with the cure in its message.

Two families decide what the lifecycle does: a TransientError is tried again by itself, a
PermanentError waits for a person. Pure: every layer may import this module.
"""

from __future__ import annotations

from collections.abc import Mapping


class Wms2Error(Exception):
    """Base of every error WMS2 raises on purpose."""

    code = "error"

    def __init__(self, message: str, *, cure: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.cure = cure

    def __str__(self) -> str:
        return f"{self.message}. {self.cure}" if self.cure else self.message


class TransientError(Wms2Error):
    """May go away by itself: the same call is worth repeating later."""

    code = "transient"


class PermanentError(Wms2Error):
    """Will not go away by itself: a person or another input is needed."""

    code = "permanent"


class InvalidInput(PermanentError):
    """Input that cannot be accepted; one message per field, nothing was stored."""

    code = "invalid_input"

    def __init__(self, message: str, *, fields: Mapping[str, str] | None = None, cure: str = "") -> None:
        super().__init__(message, cure=cure)
        self.fields = dict(fields or {})


class NotFound(PermanentError):
    """The thing named does not exist."""

    code = "not_found"


class NotAllowed(PermanentError):
    """The caller may not ask for this; somebody else may."""

    code = "permission_denied"


class Conflict(PermanentError):
    """The state of the thing does not allow this now, or somebody else was faster."""

    code = "conflict"


class QuotaExceeded(PermanentError):
    """The requestor or the group has no room for this now; nothing was stored."""

    code = "quota_exceeded"

    def __init__(self, message: str, *, cure: str = "", retry_after_sec: float | None = None) -> None:
        super().__init__(message, cure=cure)
        self.retry_after_sec = retry_after_sec  # when there is room by itself, if that is known


class IllegalTransition(Conflict):
    """A status change the transition table does not contain."""

    code = "illegal_transition"


class StaleVersion(Conflict):
    """The row changed since it was read; read it again and repeat if it still makes sense."""

    code = "stale_version"


class ServiceUnavailable(TransientError):
    """An outside service did not answer, or answered that it cannot serve now."""

    code = "service_unavailable"


class RateLimited(TransientError):
    """Our own limit of calls to a service is used up. Nothing was sent, and nothing is wrong."""

    code = "rate_limited"


class ServiceRejected(PermanentError):
    """An outside service understood the call and refused it."""

    code = "service_rejected"


class ScheddUnreachable(TransientError):
    """The schedd did not answer. Nothing is known about its jobs, so nothing may be concluded."""

    code = "schedd_unreachable"
