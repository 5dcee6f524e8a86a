"""Refusals of DBS as typed errors, by DBS's error codes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from cms.http import HttpRefusal
from wms2_project.errors import ServiceRejected


class DbsRefusal(ServiceRejected):
    """A refusal of DBS; `dbs_code` is its error code."""

    advice = ""

    def __init__(self, message: str, *, dbs_code: int) -> None:
        super().__init__(message, cure=self.advice)
        self.dbs_code = dbs_code


class AlreadyThere(DbsRefusal):
    """The block exists already."""


class ParentMissing(DbsRefusal):
    """A parent file is not in DBS."""

    advice = "Register the input files in DBS. The block is retried automatically"


class UnknownAccessType(DbsRefusal):
    """DBS does not know this dataset status."""


KINDS: dict[int, type[DbsRefusal]] = {200: AlreadyThere, 202: ParentMissing, 408: UnknownAccessType}


@contextmanager
def named_refusals() -> Iterator[None]:
    """Raise refusals of DBS inside the block as the error of their code."""
    try:
        yield
    except HttpRefusal as refusal:
        code = _code(refusal.reply)
        if not code:
            raise
        raise KINDS.get(code, DbsRefusal)(f"{refusal.message} (DBS code {code})", dbs_code=code) from refusal


def _code(reply: object) -> int:
    """Return the error code in DBS's reply; 0 if there is none."""
    document = reply[0] if isinstance(reply, list) and reply else reply
    error = document.get("error") if isinstance(document, dict) else None
    code = error.get("code") if isinstance(error, dict) else None
    return code if isinstance(code, int) else 0
