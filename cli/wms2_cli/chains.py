"""One chain: its steps and datasets, and what every unfinished step waits for."""

from __future__ import annotations

import sys
from typing import Annotated, Any

import typer

from wms2_cli.context import Session
from wms2_cli.output import Column, Format, age, clean, moment, print_facts, print_json, print_rows

Number = Annotated[int, typer.Argument(metavar="NUMBER", help="Number of the chain.")]
STEPS = (
    Column("Step", lambda row: row["name"]),
    Column("Status", lambda row: row["status"]),
    Column("Tries", lambda row: row["tries"]),
    Column("Request", lambda row: row["request_name"]),
    Column("Waits for", lambda row: row["wait_reason"]),
)
REASONS = (
    Column("Step", lambda row: row["step"]),
    Column("Status", lambda row: row["status"]),
    Column("Reason", lambda row: row["request_summary"] or row["reason"]),
    Column("Remedy", lambda row: row["remedy"]),
)


def add_reads(app: typer.Typer) -> None:
    """Add `show` and `why` to the commands of chains."""
    app.command()(show)
    app.command()(why)


def show(ctx: typer.Context, number: Number) -> None:
    """Print template, dataset, status and steps of a chain."""
    session: Session = ctx.obj
    body = session.api.get(f"chains/{number}")
    if session.form is Format.TABLE:
        print_facts(_facts(body), session.form, body)
        sys.stdout.write("\n")
    if session.form is Format.JSON:
        print_json(body)
    else:
        print_rows(body["steps"], STEPS, session.form, key="name")


def _facts(body: dict[str, Any]) -> dict[str, Any]:
    facts = {
        "chain": f"{body['id']} of {body['template']} v{body['template_version']}",
        "dataset": body["dataset_name"],
        "status": f"{body['status']} since {moment(body['status_since'])} ({age(body['status_since'])})",
        "waits for": body["wait_reason"],
        "outputs": "\n".join(one["dataset_name"] for one in body["datasets"] if one["role"] == "final"),
    }
    return {name: value for name, value in facts.items() if value}


def why(ctx: typer.Context, number: Number) -> None:
    """Explain a chain: what every unfinished step waits for, and the remedy."""
    session: Session = ctx.obj
    body = session.api.get(f"chains/{number}/why")
    if session.form is Format.JSON:
        print_json(body)
        return
    if session.form is Format.TABLE:
        sys.stdout.write(f"{clean(body['summary'])}\n\n")
    print_rows(body["steps"], REASONS, session.form, key="step")
