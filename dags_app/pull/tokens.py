"""Tokens of jobs: derived, never stored. Pure.

A token names its kind and subject and carries an HMAC over both and the workflow. Planning a round again
gives the same tokens, so its files stay equal byte for byte. A token is valid for one workflow and for the
calls of its kind; whether its runner, round or request is over is decided by the tables.
"""

from __future__ import annotations

import hashlib
import hmac
from base64 import urlsafe_b64encode
from dataclasses import dataclass
from enum import StrEnum
from uuid import UUID

PREFIX = "wms2j"
_CONTEXT = b"wms2 tokens of jobs 1\0"


class TokenKind(StrEnum):
    """Kinds of tokens, by the calls that they permit."""

    GROUP = "group"  # start a runner of the group
    RUNNER = "runner"  # heartbeat, record, confirm and abort of the runner
    FILES = "files"  # allocate files to the runner; the only one that a jobscript sees


@dataclass(frozen=True, slots=True)
class Verified:
    """A verified token; the subject is `round.group`, or the id of a runner."""

    kind: TokenKind
    subject: str


def group_subject(*, round_number: int, group: int) -> str:
    """Return the subject of a group's token."""
    return f"{round_number}.{group}"


def parse_group(subject: str) -> tuple[int, int]:
    """Return the round's number and the group's index of a verified group token."""
    number, _, group = subject.partition(".")
    return int(number), int(group)


def make_token(*, key: str, workflow_id: UUID | str, kind: TokenKind, subject: str) -> str:
    """Return the token of this kind for the subject."""
    return f"{PREFIX}.{kind}.{subject}.{_signature(key, str(workflow_id), kind, subject)}"


def read_token(text: str, *, key: str, workflow_id: UUID | str) -> Verified | None:
    """Return the verified token; None if it is malformed, forged or of another workflow."""
    head, _, signature = text.rpartition(".")
    prefix, _, rest = head.partition(".")
    kind, _, subject = rest.partition(".")
    if prefix != PREFIX or kind not in frozenset(TokenKind) or not subject or not text.isascii():
        return None
    if not hmac.compare_digest(signature, _signature(key, str(workflow_id), kind, subject)):
        return None
    return Verified(TokenKind(kind), subject)


def _signature(key: str, workflow_id: str, kind: str, subject: str) -> str:
    message = _CONTEXT + "\0".join((workflow_id, kind, subject)).encode()
    return urlsafe_b64encode(hmac.new(key.encode(), message, hashlib.sha256).digest()).decode().rstrip("=")
