"""Operations on requests, DAGs, sites, tokens and so on, each declared once.

An app lists its operations in `operations.py`. REST endpoints (`rest`), console buttons and forms
(`console`, `forms`), management commands (`command`) and docs/operations.md (`document`) are derived from
the declarations.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any

from django.http import HttpRequest as DjangoRequest
from django.utils import timezone
from rest_framework import serializers
from rest_framework.request import Request as HttpRequest

from wms2_project.access.roles import Role, groups_of, role_of, sites_of
from wms2_project.api.views import DRY_RUN, Input, ReasonInput


class Weight(StrEnum):
    """Prominence of a button: the usual next step, one that needs care, or one that cannot be undone."""

    PLAIN = "plain"
    USUAL = "usual"
    CAREFUL = "careful"
    FINAL = "final"


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """The caller of an operation."""

    username: str
    role: Role
    sites: frozenset[str] = frozenset()  # those the caller is the admin of
    groups: frozenset[str] = frozenset()  # those the caller is a member of
    auth: Any = None  # what authenticated an HTTP call: an ApiToken, a Bearer, or None

    @property
    def actor(self) -> str:
        """Name of the caller in the audit."""
        return f"user:{self.username}"

    @property
    def operates(self) -> bool:
        return self.role >= Role.OPERATOR


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One use of an operation: on what, by whom, why, with which validated input."""

    row: Any
    caller: Caller
    reason: str
    values: Mapping[str, Any]
    now: datetime
    expected_version: int | None = None
    status_before: str = ""

    @property
    def signed(self) -> dict[str, Any]:
        """The arguments every service takes."""
        return {"actor": self.caller.actor, "reason": self.reason}


@dataclass(frozen=True, slots=True)
class Done:
    """Result of an operation: the updated row, a sentence, and members to add to the response body."""

    row: Any
    message: str
    more: Mapping[str, Any] = field(default_factory=dict)


Run = Callable[[Call], Done]
Render = Callable[[Call, Done], Any]
Body = type[serializers.BaseSerializer[Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A kind of thing operations act on: how to find one, who may touch it, how a response shows it."""

    kind: str  # the word of the management command
    route: str  # below /api/v1/
    body: Body
    render: Render  # the body of a response
    find: Callable[..., Any] | None = None  # the key → the row, or NotFound; None: operations make new rows
    key: Callable[[Any], Any] = str  # a part of the key as users type it; int for numbers
    new: type[Input] | None = None  # the key as input, if operations also make new rows
    guard: Callable[[Call], None] | None = None  # raises NotAllowed
    guarded: str = ""  # the same, in words

    @property
    def plural(self) -> str:
        return self.route.partition("/")[0]

    @property
    def parts(self) -> list[str]:
        """Names of the parts of the key."""
        return re.findall(r"<\w+:(\w+)>", self.route)

    @property
    def metavars(self) -> list[str]:
        """Names of the parts of the key in the shell."""
        return [self.kind.upper()] if len(self.parts) == 1 else [part.upper() for part in self.parts]

    def row(self, *key: Any) -> Any:
        """Return the row with this key; None if operations make new rows."""
        return None if self.find is None else self.find(*key)


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """One thing that can be done to a target."""

    target: Target
    name: str
    label: str
    effect: str  # what happens, in one or two sentences
    run: Run
    role: Role = Role.OPERATOR
    input: type[Input] = ReasonInput
    method: str = "POST"
    path: str | None = None  # below the target's; its name if absent
    allows: Callable[[Any], bool] = lambda row: True  # whether the row's state allows it
    allowed_in: str = "always"  # the same, in words
    preview: Callable[[Call], Any] | None = None  # for `dry_run`: what would happen
    affects: Callable[[Any], Mapping[str, Any]] | None = None  # without a dry run: what a form shows
    guard: Callable[[Call], None] | None = None  # beside the target's
    initial: Callable[[Any], Mapping[str, Any]] | None = None  # present values, for forms
    status: int = 200
    reveals: str = ""  # the member of the result that is shown only once
    body: Body | None = None  # if not the target's
    render: Render | None = None
    preview_body: Body | None = None
    render_preview: Callable[[Call, Any], Any] | None = None
    problems: tuple[int, ...] = (409,)
    checks_version: bool = True  # takes If-Match
    icon: str = ""
    weight: Weight = Weight.PLAIN
    bulk: bool = False  # also for several rows of a list at once
    in_console: bool = True

    @property
    def url(self) -> str:
        tail = self.name if self.path is None else self.path
        return f"{self.target.route}/{tail}" if tail else self.target.route

    @property
    def operation_id(self) -> str:
        return f"{self.target.plural}_{self.name}"

    def authorize(self, call: Call) -> None:
        """Raise PermissionDenied unless the caller may do this to this row."""
        for guard in (self.target.guard, self.guard):
            if guard is not None:
                guard(call)


def caller_of(request: DjangoRequest | HttpRequest) -> Caller:
    """Return who sent the HTTP request."""
    user = request.user
    return Caller(
        username=user.get_username(),
        role=role_of(user),
        sites=sites_of(user),
        groups=groups_of(user),
        auth=getattr(request, "auth", None),
    )


def make_call(
    row: Any, caller: Caller, body: Mapping[str, Any], *, expected_version: int | None = None
) -> tuple[Call, bool]:
    """Return the call of a validated body, and whether it asks for a dry run."""
    values = dict(body)
    reason, dry_run = str(values.pop("reason", "")), bool(values.pop(DRY_RUN, False))
    call = Call(
        row=row,
        caller=caller,
        reason=reason,
        values=values,
        now=timezone.now(),
        expected_version=expected_version,
        status_before=str(getattr(row, "status", "")),
    )
    return call, dry_run
