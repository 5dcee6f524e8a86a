"""Commands that read requests: their calls of the API and their output.

Free of Typer, so that `quick` can run them without importing it.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any

from wms2_cli.api import segment
from wms2_cli.context import Session
from wms2_cli.output import (
    Column,
    Format,
    age,
    clean,
    moment,
    percent,
    print_facts,
    print_json,
    print_rows,
    shorten,
    wrap,
)

COLUMNS = (
    Column("Request", lambda row: row["request_name"]),
    Column("Status", lambda row: row["status"]),
    Column("Since", lambda row: age(row["status_since"]), lambda row: row["status_since"]),
    Column("Priority", lambda row: row["priority"]),
    Column("Progress", lambda row: percent(row["progress"]["fraction"])),
    Column("Groups", lambda row: f"{row['progress']['groups_done']}/{row['progress']['groups_total']}"),
    Column("Waits for", lambda row: shorten(_waits_for(row)), lambda row: _waits_for(row)),
)


def _waits_for(row: Mapping[str, Any]) -> str:
    return str(row["wait_reason"] or row["last_error"] or "")


def list_requests(
    session: Session,
    *,
    status: Sequence[str] | None = None,
    name: str = "",
    campaign: str = "",
    requestor: str = "",
    limit: int = 50,
) -> None:
    """List requests, newest first."""
    rows = session.api.pages(
        "requests", limit=limit, status=status, name=name, campaign=campaign, requestor=requestor
    )
    print_rows(rows, COLUMNS, session.form, key="request_name")


def show(session: Session, *, name: str) -> None:
    """Print status, progress and settings of a request."""
    body = session.api.get(f"requests/{segment(name)}")
    progress = body["progress"]
    facts = {
        "request": body["request_name"],
        "status": f"{body['status']} since {moment(body['status_since'])} ({age(body['status_since'])})",
        "meaning": body["status_why"],
        "waits for": body["wait_reason"],
        "last error": body["last_error"],
        "progress": f"{percent(progress['fraction'])} of {progress['events_total']:,} events",
        "groups": f"{progress['groups_done']} of {progress['groups_total']}",
        "blocks announced": f"{progress['blocks_announced']} of {progress['blocks']}",
        "estimated end": moment(progress["estimated_completion"]) or "unknown",
        "priority": body["priority"],
        "requestor": body["requestor"],
        "campaign": body["campaign"],
        "input": ", ".join(body["input_datasets"]) or "none (Monte Carlo)",
        "queue position": body["queue_position"],
        "alerts": "; ".join(alert["message"] for alert in body.get("alerts", [])),
    }
    print_facts({key: value for key, value in facts.items() if value not in (None, "")}, session.form, body)


def why(session: Session, *, name: str) -> None:
    """Explain the status of a request: what it waits for, since when, and the remedy."""
    body = session.api.get(f"requests/{segment(name)}/why")
    if session.form is Format.JSON:
        print_json(body)
        return
    text = clean(explain(body))
    sys.stdout.write((wrap(text) if session.form is Format.TABLE else text) + "\n")


def explain(body: Mapping[str, Any]) -> str:
    """Return the body of `/why` as text: the summary, then each gate that blocks with its remedy."""
    lines = [str(body["summary"])]
    for gate in body["gates"]:
        if gate["verdict"] != "block":
            continue
        since = f" (for {age(gate['since'])})" if gate.get("since") else ""
        lines += ["", f"{gate['name']}: {gate['detail']}{since}"]
        if gate.get("remedy"):
            lines.append(f"remedy: {gate['remedy']}")
    return "\n".join(lines)


def errors(session: Session, *, name: str) -> None:
    """List the failures of a request in clusters, each with its suggestion."""
    body = session.api.get(f"requests/{segment(name)}/errors")
    columns = (
        Column("Jobs", lambda row: row.get("jobs")),
        Column("Site", lambda row: row.get("site") or "all"),
        Column("Exit code", lambda row: row.get("exit_code")),
        Column("Category", lambda row: row.get("category")),
        Column("Message", lambda row: row.get("message")),
        Column("Suggestion", _suggestion),
        Column("Because", lambda row: (row.get("suggestion") or {}).get("why")),
    )
    if session.form is Format.JSON:
        print_json(body)
    else:
        print_rows([*body["clusters"], *body["running"]], columns, session.form, key="exit_code")


def _suggestion(row: Mapping[str, Any]) -> str:
    found = row.get("suggestion") or {}
    given = (found.get("modifications") or {}).items()
    changes = [f"{name}={_text(value)}" for name, value in given if value not in (None, "", [])]
    return " ".join([str(found.get("action") or ""), *changes])


def _text(value: object) -> str:
    return ",".join(map(str, value)) if isinstance(value, list) else str(value)
