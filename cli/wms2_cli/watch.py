"""`wms2 watch`: live progress of requests until all have ended."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any

import typer

from wms2_cli.api import Api, segment
from wms2_cli.context import Session
from wms2_cli.errors import FAILED, UNREACHABLE, CliError
from wms2_cli.output import COLOURS, Format, clean, duration, flat, large, percent, time_until

ENDED = {"completed": 0, "failed": FAILED, "aborted": FAILED}
JOB_STATES = ("running", "idle", "held", "failed")
BAR, BESIDE = (10, 30), 50  # least and greatest width of the bar, and the width left for the rest of its line
Row = Mapping[str, Any]


def watch(
    ctx: typer.Context,
    names: Annotated[list[str], typer.Argument(metavar="REQUEST…", help="Names of the requests.")],
    interval: Annotated[float, typer.Option("--interval", min=0.2, help="Seconds between updates.")] = 2.0,
    until_held: Annotated[
        bool, typer.Option("--until-held", help="Also end when a request is held.")
    ] = False,
) -> None:
    """Follow requests with progress bars until they have ended. The exit code is 0 if all completed.

    If the server does not respond, the command retries until it does.
    """
    session: Session = ctx.obj
    ended = {**ENDED, **({"held": FAILED} if until_held else {})}
    names = list(dict.fromkeys(names))
    rows = [read(session.api, name) for name in names]
    with DISPLAYS[session.form]() as display:
        display.update(rows)
        while not all(row["status"] in ended for row in rows):
            time.sleep(interval)
            try:
                rows = [read(session.api, name) for name in names]
            except CliError as error:
                if error.exit_code != UNREACHABLE:
                    raise
                display.warn(f"{str(error).splitlines()[0]}; trying again")
            else:
                display.update(rows)
    if worst := max(ended[row["status"]] for row in rows):
        missed = ", ".join(f"{row['request_name']} {row['status']}" for row in rows if ended[row["status"]])
        raise CliError(f"not completed: {missed}", cure="See `wms2 why` and `wms2 errors`", exit_code=worst)


def read(api: Api, name: str) -> Row:
    """Return a request with its progress in detail."""
    row = api.get(f"requests/{segment(name)}")
    return {**row, "detail": api.get(f"requests/{segment(name)}/progress")}


def describe(row: Row) -> str:
    """Return the text beside the bar: events, groups, jobs by state, expected end and reason of waiting."""
    progress, nodes = row["progress"], row["detail"]["nodes"]
    parts = [
        f"{large(progress['events_done'])}/{large(progress['events_total'])} events",
        f"{progress['groups_done']}/{progress['groups_total']} groups",
    ]
    if jobs := [f"{nodes[state]} {state}" for state in JOB_STATES if nodes[state]]:
        parts.append(", ".join(jobs))
    if progress["estimated_completion"]:
        parts.append(f"ends in {time_until(progress['estimated_completion'])}")
    if row["wait_reason"] or row["last_error"]:
        parts.append(flat(row["wait_reason"] or row["last_error"]))
    return " · ".join(parts)


class Display:
    """Shows nothing: the result is the exit code."""

    def __enter__(self) -> Display:
        return self

    def __exit__(self, *error: Any) -> None: ...

    def update(self, rows: Sequence[Row]) -> None: ...

    def warn(self, text: str) -> None: ...


class Lines(Display):
    """One line per change, for pipes and logs. Warnings go to standard error, each once."""

    def __init__(self) -> None:
        self._seen: dict[str, str] = {}
        self._warned = ""
        self._began = time.monotonic()

    def update(self, rows: Sequence[Row]) -> None:
        self._warned = ""
        for row in rows:
            name, text = str(row["request_name"]), self._text(row)
            if self._seen.get(name) != text:
                self._seen[name] = text
                sys.stdout.write(self._line(text))
        sys.stdout.flush()

    def warn(self, text: str) -> None:
        if text != self._warned:
            sys.stderr.write(f"wms2: {text}\n")
        self._warned = text

    def _text(self, row: Row) -> str:
        done = percent(row["progress"]["fraction"])
        return f"{flat(row['request_name'])}\t{row['status']}\t{done}\t{describe(row)}"

    def _line(self, text: str) -> str:
        return f"{duration(time.monotonic() - self._began)}\t{text}\n"


class Documents(Lines):
    """One JSON document per change: the body of `GET /requests/NAME/progress`."""

    def _text(self, row: Row) -> str:
        return json.dumps(row["detail"], ensure_ascii=False)

    def _line(self, text: str) -> str:
        return f"{text}\n"


class Bars(Display):
    """Progress bars that are redrawn in place, below a line per change of status."""

    def __init__(self) -> None:
        self._statuses: dict[str, str] = {}
        self._rows: Sequence[Row] = ()

    def __enter__(self) -> Bars:
        from rich.live import Live

        self._live = Live(refresh_per_second=4)
        self._live.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        self._live.__exit__(*error)

    def update(self, rows: Sequence[Row]) -> None:
        self._rows = rows
        for row in rows:
            name, status = clean(row["request_name"]), row["status"]
            before = self._statuses.setdefault(name, status)
            if before != status:
                self._statuses[name] = status
                now = time.strftime("%H:%M:%S")
                self._live.console.print(f"{now} {name}: {before} → {status}", markup=False, highlight=False)
        self._draw("")

    def warn(self, text: str) -> None:
        self._draw(text)

    def _draw(self, warning: str) -> None:
        from rich.console import Group
        from rich.progress_bar import ProgressBar
        from rich.table import Table
        from rich.text import Text

        least, most = BAR
        width = min(max(self._live.console.width - BESIDE, least), most)
        longest = max(len(row["status"]) for row in self._rows)
        parts: list[Any] = []
        for row in self._rows:
            status, done = row["status"], row["progress"]["fraction"] or 0.0
            line = Table.grid(padding=(0, 1))
            line.add_column(no_wrap=True)
            line.add_row(
                Text(f"{status:<{longest}}", style=COLOURS.get(status, "")),
                ProgressBar(total=1.0, completed=done, width=width),
                Text(f"{percent(done):>7}"),
                Text(clean(row["request_name"]), style="bold", overflow="ellipsis", no_wrap=True),
            )
            parts += [line, Text(f"  {describe(row)}", style="dim", overflow="ellipsis", no_wrap=True)]
        if warning:
            parts.append(Text(clean(warning), style="red"))
        self._live.update(Group(*parts), refresh=True)


DISPLAYS: Mapping[Format, Callable[[], Display]] = {
    Format.TABLE: Bars, Format.TSV: Lines, Format.JSON: Documents, Format.QUIET: Display,
}  # fmt: skip
