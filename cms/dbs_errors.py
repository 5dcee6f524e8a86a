"""DBS's refusals by its own codes, so that callers and people see what is wrong and what to do."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from cms.http import HttpRefusal
from wms2_project.errors import ServiceRejected


class DbsRefusal(ServiceRejected):
    """DBS said no; `dbs_code` is its own number."""

    advice = ""

    def __init__(self, message: str, *, dbs_code: int) -> None:
        super().__init__(message, cure=self.advice)
        self.dbs_code = dbs_code


class AlreadyThere(DbsRefusal):
    """The block was inserted before."""


class ParentMissing(DbsRefusal):
    """A file we name as parent is not in DBS."""

    advice = "Register the input files in DBS first; the block is tried again by itself"


class UnknownAccessType(DbsRefusal):
    """There is no such status of a dataset."""


KINDS: dict[int, type[DbsRefusal]] = {200: AlreadyThere, 202: ParentMissing, 408: UnknownAccessType}


@contextmanager
def named_refusals() -> Iterator[None]:
    """Raise what DBS refuses inside as the error its code stands for."""
    try:
        yield
    except HttpRefusal as refusal:
        code = _code(refusal.reply)
        if not code:
            raise
        raise KINDS.get(code, DbsRefusal)(f"{refusal.message} (DBS code {code})", dbs_code=code) from refusal


def _code(reply: object) -> int:
    """The number in a list with one document that nests the error."""
    document = reply[0] if isinstance(reply, list) and reply else reply
    error = document.get("error") if isinstance(document, dict) else None
    code = error.get("code") if isinstance(error, dict) else None
    return code if isinstance(code, int) else 0
