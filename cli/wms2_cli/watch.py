"""`wms2 watch`: live progress of requests until all have ended."""

from __future__ import annotations

import sys
import time
from typing import Annotated, Any

import typer

from wms2_cli.api import Api, segment
from wms2_cli.context import Session
from wms2_cli.errors import FAILED, CliError
from wms2_cli.output import COLOURS, age, clean, duration, percent

ENDED = {"completed": 0, "failed": FAILED, "aborted": FAILED}
WIDTH = 30


def watch(
    ctx: typer.Context,
    names: Annotated[list[str], typer.Argument(metavar="REQUEST…", help="Names of the requests.")],
    interval: Annotated[float, typer.Option("--interval", min=0.2, help="Seconds between updates.")] = 2.0,
    until_held: Annotated[
        bool, typer.Option("--until-held", help="Also end when a request is held.")
    ] = False,
) -> None:
    """Follow requests with progress bars until they have ended. The exit code is 0 if all completed."""
    session: Session = ctx.obj
    ended = {**ENDED, **({"held": FAILED} if until_held else {})}
    show = _bars() if sys.stdout.isatty() else _lines()
    with show as display:
        while True:
            rows = [read(session.api, name) for name in names]
            display.update(rows)
            if all(row["status"] in ended for row in rows):
                break
            time.sleep(interval)
    if worst := max(ended[row["status"]] for row in rows):
        missed = ", ".join(f"{row['request_name']} {row['status']}" for row in rows if ended[row["status"]])
        raise CliError(f"not completed: {missed}", cure="See `wms2 why` and `wms2 errors`", exit_code=worst)


def read(api: Api, name: str) -> dict[str, Any]:
    """Return what a progress line shows of one request."""
    row = api.get(f"requests/{segment(name)}")
    detail = api.get(f"requests/{segment(name)}/progress")
    return {**row, "detail": detail}


def describe(row: dict[str, Any]) -> str:
    """Return the text beside the bar: counts, jobs in the queue, estimated end, and what it waits for."""
    progress = row["progress"]
    parts = [f"{progress['groups_done']}/{progress['groups_total']} groups"]
    dag = row["detail"].get("dag") or {}
    if dag:
        parts.append(f"{dag.get('nodes_running', 0)} running, {dag.get('nodes_idle', 0)} idle")
    if progress["estimated_completion"]:
        parts.append(f"ends in {age(progress['estimated_completion'])}")
    if row["wait_reason"] or row["last_error"]:
        parts.append(clean(row["wait_reason"] or row["last_error"]))
    return " · ".join(parts)


class _lines:
    """One line per change, for pipes and logs."""

    def __init__(self) -> None:
        self._seen: dict[str, str] = {}
        self._began = time.monotonic()

    def __enter__(self) -> _lines:
        return self

    def __exit__(self, *error: object) -> None: ...

    def update(self, rows: list[dict[str, Any]]) -> None:
        for row in rows:
            name, done = clean(row["request_name"]), percent(row["progress"]["fraction"])
            text = f"{name}\t{row['status']}\t{done}\t{describe(row)}"
            if self._seen.get(name) != text:
                self._seen[name] = text
                sys.stdout.write(f"{duration(time.monotonic() - self._began)}\t{text}\n")
        sys.stdout.flush()


class _bars:
    """Progress bars that are redrawn in place."""

    def __enter__(self) -> _bars:
        from rich.live import Live

        self._live = Live(refresh_per_second=4)
        self._live.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        self._live.__exit__(*error)

    def update(self, rows: list[dict[str, Any]]) -> None:
        from rich.progress_bar import ProgressBar
        from rich.table import Table
        from rich.text import Text

        table = Table.grid(padding=(0, 1))
        for row in rows:
            status, done = row["status"], row["progress"]["fraction"] or 0.0
            table.add_row(
                Text(clean(row["request_name"]), style="bold"),
                Text(status, style=COLOURS.get(status, "")),
                ProgressBar(total=1.0, completed=done, width=WIDTH),
                Text(percent(done)),
                Text(describe(row), style="dim"),
            )
        self._live.update(table, refresh=True)
