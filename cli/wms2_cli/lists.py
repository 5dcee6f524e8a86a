"""Lists of sites, schedds, DAGs, alerts, quotas, the admission queue, templates, chains and announcements."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import typer

from wms2_cli.context import Session
from wms2_cli.output import Column, Format, print_json, print_rows, time_column
from wms2_cli.requests import Limit

PAGED = "results"  # the member of the rows of a list in pages


@dataclass(frozen=True, slots=True)
class Listing:
    """A list of the API: the command group it belongs to, its path, its rows and columns."""

    kind: str
    path: str
    key: str
    columns: tuple[Column, ...]
    rows: str = PAGED


def _plain(*names: str) -> tuple[Column, ...]:
    def column(name: str) -> Column:
        title = name.replace("_", " ").capitalize()
        if name.endswith("_at"):
            return time_column(title.removesuffix(" at"), lambda row: row.get(name))
        return Column(title, lambda row: _text(row.get(name)))

    return tuple(map(column, names))


def _text(value: object) -> object:
    """Return a cell; of several named values, those that are set."""
    if isinstance(value, dict):
        return ", ".join(f"{name}={one}" for name, one in value.items() if one is not None)
    return ", ".join(map(str, value)) if isinstance(value, list) else value


def _likely_start(row: Mapping[str, Any]) -> Any:
    return (row.get("expected_start") or {}).get("likely")


LISTINGS = (
    Listing(
        "site", "sites", "name", _plain("name", "status", "total_slots", "running_slots", "status_reason")
    ),
    Listing("schedd", "schedds", "name", _plain("name", "status", "live_dags", "answered_at", "reason")),
    Listing("dag", "dags", "id", _plain("id", "request_name", "status", "schedd_name", "submitted_at")),
    Listing(
        "alert",
        "alerts",
        "id",
        _plain("id", "kind", "request_name", "site", "count", "created_at", "message"),
    ),
    Listing("quota", "quotas", "name", _plain("scope", "name", "limits", "usage"), rows="quotas"),
    Listing("quarantine", "quarantine", "id", _plain("id", "site", "lfn", "proof", "expires_at")),
    Listing(
        "template",
        "templates",
        "name",
        _plain("name", "version", "status", "mask", "cleanup", "created_by"),
    ),
    Listing(
        "chain",
        "chains",
        "id",
        _plain("id", "template", "template_version", "status", "dataset_name", "created_at", "wait_reason"),
    ),
    Listing(
        "announcement",
        "announcements",
        "id",
        _plain("id", "status", "dataset_name", "template_name", "received_at", "reason"),
    ),
    Listing("token", "tokens", "id", _plain("id", "user", "name", "last_used_at", "expires_at")),
    Listing(
        "admission",
        "admission/queue",
        "request_name",
        (
            *_plain("position", "request_name", "priority", "rank"),
            time_column("Expected start", _likely_start),
            *_plain("gate", "wait_reason"),
        ),
    ),
)


def add_list(app: typer.Typer, kind: str) -> None:
    """Add `list` to the command group of this kind, if the API has such a list."""
    for listing in LISTINGS:
        if listing.kind == kind:
            _add(app, listing)


def _add(app: typer.Typer, listing: Listing) -> None:
    def run(ctx: typer.Context, limit: Limit = 200) -> None:
        session: Session = ctx.obj
        body = session.api.get(listing.path)
        if listing.rows == PAGED:
            body |= {PAGED: list(session.api.rows(body, limit=limit))}
        if session.form is Format.JSON:
            print_json(body)
        else:
            print_rows(body[listing.rows][:limit], listing.columns, session.form, key=listing.key)

    app.command("list", help=f"List {listing.path.replace('/', ' ')}.")(run)
