"""Lists of sites, schedds, DAGs, alerts, quotas and the admission queue."""

from __future__ import annotations

from dataclasses import dataclass

import typer

from wms2_cli.context import Session
from wms2_cli.output import Column, Format, age, print_json, print_rows
from wms2_cli.requests import Limit


@dataclass(frozen=True, slots=True)
class Listing:
    """A list of the API: the command group it belongs to, its path, its rows and columns."""

    kind: str
    path: str
    key: str
    columns: tuple[Column, ...]
    rows: str = "results"


def _plain(*names: str) -> tuple[Column, ...]:
    def column(name: str) -> Column:
        title = name.replace("_", " ").capitalize()
        if name.endswith("_at"):
            return Column(title.removesuffix(" at"), lambda row: age(row.get(name)))
        return Column(title, lambda row: row.get(name))

    return tuple(map(column, names))


LISTINGS = (
    Listing("site", "sites", "name", _plain("name", "status", "total_slots", "running_slots", "reason")),
    Listing("schedd", "schedds", "name", _plain("name", "status", "dags", "answered_at", "reason")),
    Listing("dag", "dags", "id", _plain("id", "request_name", "status", "schedd_name", "submitted_at")),
    Listing(
        "alert",
        "alerts",
        "id",
        _plain("id", "kind", "request_name", "site", "count", "created_at", "message"),
    ),
    Listing("quota", "quotas", "name", _plain("scope", "name", "limits", "usage"), rows="quotas"),
    Listing("quarantine", "quarantine", "id", _plain("id", "site", "lfn", "proof", "expires_at")),
    Listing("token", "tokens", "id", _plain("id", "name", "role", "last_used_at", "expires_at")),
    Listing(
        "admission",
        "admission/queue",
        "request_name",
        _plain("position", "request_name", "priority", "rank", "expected_start", "wait_reason"),
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
        rows = body[listing.rows] if isinstance(body, dict) else body
        if session.form is Format.JSON:
            print_json(body)
        else:
            print_rows(rows[:limit], listing.columns, session.form, key=listing.key)

    app.command("list", help=f"List {listing.path.replace('/', ' ')}.")(run)
