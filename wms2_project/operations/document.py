"""The reference of operations, docs/operations.md, written from the declarations."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from wms2_project.access.roles import Role
from wms2_project.api.views import DRY_RUN
from wms2_project.operations import Operation

REASON = "reason"
HEAD = """# Operations

All operations, each with the least role, where it is allowed, and how to call it. Written by
`./wms2 manage reference operations`; do not edit by hand. Every operation takes a `reason`, which
the audit keeps with the name of the caller.
"""


def render_document(operations: Iterable[Operation]) -> str:
    """Return the Markdown document."""
    parts, kind = [HEAD], ""
    for one in operations:
        if one.target.kind != kind:
            kind = one.target.kind
            parts.append(f"## {kind.capitalize()}\n")
        parts.append(_section(one))
    return "\n".join(parts)


def _section(one: Operation) -> str:
    guarded = f", {one.target.guarded}" if one.target.guarded and one.role < Role.OPERATOR else ""
    console = f"button *{one.label}*" if one.in_console else "–"
    fields: dict[str, Any] = dict(one.input().fields)
    command = " ".join(("./wms2 manage", one.target.kind, one.name, *one.target.metavars, *_options(fields)))
    lines = [
        f"### {one.name}\n",
        f"{one.effect}\n",
        f"- Allowed: {one.allowed_in}",
        f"- Role: {one.role.name.lower()}{guarded}",
        f"- REST: `{one.method} /api/v1/{_plain(one.url)}`",
        f"- Console: {console}{', also for several at once' if one.bulk else ''}",
        f"- Shell: `{command}`",
    ]
    lines += [
        _field(name, field)
        for name, field in fields.items()
        if name != DRY_RUN and not (name == REASON and field.required)
    ]
    if one.preview is not None:
        lines.append("- `dry_run`: only returns what would happen")
    return "\n".join(lines) + "\n"


def _options(fields: Mapping[str, Any]) -> list[str]:
    """Return the options without which the shell command is refused."""
    needed = [name for name, field in fields.items() if field.required]
    return [f"--{name.replace('_', '-')} …" for name in sorted(needed, key=lambda name: name != REASON)]


def _field(name: str, field: Any) -> str:
    needed = ", required" if field.required else ""
    return f"- `{name}`{needed}: {field.help_text or field.label}"


def _plain(route: str) -> str:
    parts = (f"{{{part[1:-1].rpartition(':')[2]}}}" if "<" in part else part for part in route.split("/"))
    return "/".join(parts)
