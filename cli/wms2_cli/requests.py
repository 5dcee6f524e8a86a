"""Commands that read requests, and `submit` and `plan`, which send documents."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from wms2_cli import reads
from wms2_cli.api import segment
from wms2_cli.context import Session
from wms2_cli.errors import USAGE, CliError
from wms2_cli.output import (
    Column,
    Format,
    clean,
    moment,
    print_facts,
    print_json,
    print_rows,
    shorten,
    time_column,
)

Name = Annotated[str, typer.Argument(metavar="REQUEST", help="Name of the request.")]
Limit = Annotated[int, typer.Option("--limit", "-n", min=1, help="Most rows to print.")]
ONE_OBJECT = "Give a file with one JSON object: {…}"
STATUS_HELP = "Only requests in this status; may be repeated."


def add_request_commands(app: typer.Typer) -> None:
    """Add the commands to the top level."""
    for function in (submit, plan, show, why, errors, runners, logs, timeline):
        app.command()(function)
    app.command("list")(list_requests)


def submit(
    ctx: typer.Context,
    documents: Annotated[
        list[str], typer.Argument(metavar="FILE…", help="JSON documents; - reads standard input.")
    ],
    key: Annotated[
        str, typer.Option("--key", help="Idempotency key: a repetition returns the first result.")
    ] = "",
    reqmgr2: Annotated[
        bool, typer.Option("--reqmgr2", help="The arguments are names of ReqMgr2 requests.")
    ] = False,
) -> None:
    """Submit requests and print their names."""
    session: Session = ctx.obj
    if key and len(documents) > 1:
        raise CliError("--key is for one document", cure="Submit them one by one", exit_code=USAGE)
    failed = 0
    for source in documents:
        body = {"request_name": source, "source": "reqmgr2"} if reqmgr2 else read_document(source)
        try:
            headers = {"Idempotency-Key": key} if key else {}
            made = session.api.call("POST", "requests", body, headers=headers).body
        except CliError as error:
            if len(documents) == 1:
                raise
            failed += 1
            sys.stderr.write(f"{source}: {error}\n")
            continue
        if session.form is Format.JSON:
            print_json(made)
        else:
            sys.stdout.write(f"{clean(made['request_name'])}\n")
    if failed:
        raise CliError(f"{failed} of {len(documents)} documents were refused")


def plan(
    ctx: typer.Context,
    document: Annotated[str, typer.Argument(metavar="FILE", help="A JSON document; - reads standard input.")],
) -> None:
    """Print the jobs, groups, resources and sites a document would lead to. Nothing is stored."""
    session: Session = ctx.obj
    body = session.api.call("POST", "requests/plan", read_document(document)).body
    facts = {name: value for name, value in body.items() if not isinstance(value, dict | list)}
    for name, value in body.items():
        if isinstance(value, dict):
            facts |= {f"{name}.{key}": one for key, one in value.items() if not isinstance(one, dict | list)}
        elif isinstance(value, list):
            facts[name] = len(value)
    print_facts(facts, session.form, body)


def list_requests(
    ctx: typer.Context,
    status: Annotated[list[str] | None, typer.Option("--status", "-s", help=STATUS_HELP)] = None,
    name: Annotated[str, typer.Option("--name", help="Only names that contain this text.")] = "",
    campaign: Annotated[str, typer.Option("--campaign", help="Only requests of this campaign.")] = "",
    requestor: Annotated[str, typer.Option("--requestor", help="Only requests of this requestor.")] = "",
    limit: Limit = 50,
) -> None:
    """List requests, newest first."""
    reads.list_requests(
        ctx.obj, status=status, name=name, campaign=campaign, requestor=requestor, limit=limit
    )


def show(ctx: typer.Context, name: Name) -> None:
    """Print status, progress and settings of a request."""
    reads.show(ctx.obj, name=name)


def why(ctx: typer.Context, name: Name) -> None:
    """Explain the status of a request: what it waits for, since when, and the remedy."""
    reads.why(ctx.obj, name=name)


def errors(ctx: typer.Context, name: Name) -> None:
    """List the failures of a request in clusters, each with its suggestion."""
    reads.errors(ctx.obj, name=name)


def runners(
    ctx: typer.Context,
    name: Name,
    state: Annotated[str, typer.Option("--state", help="Only runners in this state, such as running.")] = "",
    site: Annotated[str, typer.Option("--site", help="Only runners at this site.")] = "",
    limit: Limit = 50,
) -> None:
    """List the runners of a pull request, newest first: where they are, what they hold, how they ended."""
    session: Session = ctx.obj
    workflow = session.api.get(f"requests/{segment(name)}")["workflow"]["id"]
    columns = (
        Column("Node", lambda row: row["node"]),
        Column("Site", lambda row: row["site"]),
        Column("State", lambda row: row["outcome"] or row["state"]),
        Column("Files", lambda row: f"{row['files_processed']}/{row['files_lent']}"),
        time_column("Heartbeat", lambda row: row["heartbeat_at"]),
        Column("Exit code", lambda row: row["exit_code"]),
        Column("Message", lambda row: shorten(row["message"]), lambda row: row["message"]),
    )
    rows = session.api.pages(f"workflows/{workflow}/runners", limit=limit, state=state, site=site)
    print_rows(rows, columns, session.form, key="id")


def logs(
    ctx: typer.Context,
    name: Name,
    group: Annotated[str, typer.Option("--group", help="A group, such as mg_000003.")] = "",
    node: Annotated[str, typer.Option("--node", help="A node of the group, such as proc_000012.")] = "",
    tail: Annotated[int, typer.Option("--tail", min=1, max=500, help="Lines of each log.")] = 20,
) -> None:
    """Print where the logs of a request's newest DAG are, and their last lines."""
    session: Session = ctx.obj
    dags = list(session.api.pages("dags", limit=1, request_name=name))
    if not dags:
        raise CliError(f"{name} has no DAG yet", cure=f"See `wms2 why {name}`")
    body = session.api.get(f"dags/{dags[0]['id']}/logs", group=group, node=node, tail=tail)
    if session.form is Format.JSON:
        print_json(body)
        return
    for kind, path in body["logs"].items():
        end = body["tails"].get(kind)
        text = "(no such file)" if end is None else end.rstrip("\n") or "(empty)"
        sys.stdout.write(f"==> {clean(kind)}: {clean(path)}\n{clean(text)}\n")


def list_outputs(ctx: typer.Context, name: Name) -> None:
    """List the output datasets of a request with their blocks, files and events."""
    session: Session = ctx.obj
    body = session.api.get(f"requests/{segment(name)}/outputs")
    columns = (
        Column("Dataset", lambda row: row["dataset_name"]),
        Column("Status", lambda row: row["status"]),
        Column("Blocks announced", lambda row: f"{row['blocks_announced']}/{row['blocks']}"),
        Column("On tape", lambda row: row["blocks_archived"]),
        Column("Files", lambda row: row["files"]),
        Column("Events", lambda row: row["events"]),
        Column("GB", lambda row: f"{row['size_bytes'] / 1e9:.1f}"),
    )
    if session.form is Format.JSON:
        print_json(body)
    else:
        print_rows(body["datasets"], columns, session.form, key="dataset_name")


def timeline(ctx: typer.Context, name: Name, limit: Limit = 200) -> None:
    """Print status changes, edits and actions, oldest first, with actor and reason."""
    session: Session = ctx.obj
    columns = (
        Column("Time", lambda row: moment(row["at"]), lambda row: row["at"]),
        Column("What", lambda row: row["kind"]),
        Column("From", lambda row: row["from_status"]),
        Column("To", lambda row: row["to_status"]),
        Column("Actor", lambda row: row["actor"]),
        Column("Reason", lambda row: row["reason"]),
    )
    rows = session.api.pages(f"requests/{segment(name)}/timeline", limit=limit)
    print_rows(rows, columns, session.form, key="at")


def read_document(source: str) -> dict[str, Any]:
    """Return the JSON object of a file or of standard input."""
    try:
        text = sys.stdin.read() if source == "-" else Path(source).read_text()
    except (OSError, UnicodeDecodeError) as error:
        problem = f"{source} cannot be read: {getattr(error, 'strerror', None) or error}"
        raise CliError(problem, cure="Give the path of a JSON file", exit_code=USAGE) from error
    try:
        found = json.loads(text)
    except ValueError as error:
        raise CliError(f"{source} is not JSON: {error}", cure=ONE_OBJECT, exit_code=USAGE) from error
    if not isinstance(found, dict):
        raise CliError(f"{source} is not a JSON object", cure=ONE_OBJECT, exit_code=USAGE)
    return found
