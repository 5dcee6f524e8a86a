"""The errors of WMS2, each with its cure.

Two families decide what the lifecycle does: a TransientError is retried automatically, a PermanentError needs
an operator. Pure: every layer may import this module.
"""

from __future__ import annotations

from collections.abc import Mapping


class Wms2Error(Exception):
    """Base of all errors that WMS2 raises."""

    code = "error"

    def __init__(self, message: str, *, cure: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.cure = cure

    def __str__(self) -> str:
        return f"{self.message}. {self.cure}" if self.cure else self.message


class TransientError(Wms2Error):
    """A failure that may pass: the call is repeated later."""

    code = "transient"


class PermanentError(Wms2Error):
    """A failure that repeating does not solve: it needs a person or other input."""

    code = "permanent"


class InvalidInput(PermanentError):
    """Input that is refused, with one message per field; nothing was stored."""

    code = "invalid_input"

    def __init__(self, message: str, *, fields: Mapping[str, str] | None = None, cure: str = "") -> None:
        super().__init__(message, cure=cure)
        self.fields = dict(fields or {})


class NotFound(PermanentError):
    """The named object does not exist."""

    code = "not_found"


class NotAllowed(PermanentError):
    """The caller's role does not permit this."""

    code = "permission_denied"


class Conflict(PermanentError):
    """The object's state does not allow this, or it was changed concurrently."""

    code = "conflict"


class Gone(PermanentError):
    """The object has ended, and calls for it change nothing any more."""

    code = "gone"


class QuotaExceeded(PermanentError):
    """A quota of the requestor or the group is exhausted; nothing was stored."""

    code = "quota_exceeded"

    def __init__(self, message: str, *, cure: str = "", retry_after_sec: float | None = None) -> None:
        super().__init__(message, cure=cure)
        self.retry_after_sec = retry_after_sec  # when a retry can succeed, if known


class IllegalTransition(Conflict):
    """A change of status that the transition table does not contain."""

    code = "illegal_transition"


class StaleVersion(Conflict):
    """The row has changed since it was read. Read it again before repeating the change."""

    code = "stale_version"


class ServiceUnavailable(TransientError):
    """An external service did not answer, or reported that it cannot serve now."""

    code = "service_unavailable"


class RateLimited(TransientError):
    """WMS2's own limit of calls to a service is exhausted. Nothing was sent."""

    code = "rate_limited"


class ServiceRejected(PermanentError):
    """An external service refused the call."""

    code = "service_rejected"


class ScheddUnreachable(TransientError):
    """The schedd did not answer. The state of its jobs is unknown."""

    code = "schedd_unreachable"
