"""Output of the demonstration: a progress line per request, a line per status change, a final table."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from lab.demo.outputs import Merged
from lab.demo.summary import COMPLETED, LOST, RequestView


class Display:
    def __init__(self, console: Console) -> None:
        self.console = console
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.percentage:>3.0f}%"),
            TextColumn("{task.fields[status]:<14}"),
            TextColumn("{task.fields[counts]}", style="dim"),
            TimeElapsedColumn(),
            console=console,
            disable=not console.is_terminal,
        )
        self._tasks: dict[str, TaskID] = {}
        self._shown: dict[str, int] = {}

    def __enter__(self) -> Display:
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()

    def say(self, text: str) -> None:
        self._progress.console.print(text, markup=False, highlight=False, soft_wrap=True)

    def show(self, views: Sequence[RequestView]) -> None:
        for change, name in sorted(self._news(views), key=lambda each: each[0]["at"]):
            self._tell_change(name, change)
        for view in views:
            if view.name not in self._tasks:
                self._tasks[view.name] = self._progress.add_task(view.name, total=1.0, status="", counts="")
            self._progress.update(
                self._tasks[view.name],
                completed=1.0 if view.status == COMPLETED else view.fraction,
                status=view.status,
                counts=_counts(view),
            )

    def _news(self, views: Sequence[RequestView]) -> Iterator[tuple[Mapping[str, str], str]]:
        for view in views:
            for change in view.transitions[self._shown.get(view.name, 0) :]:
                yield change, view.name
            self._shown[view.name] = len(view.transitions)

    def _tell_change(self, name: str, change: Mapping[str, str]) -> None:
        line = Text(f"{change['at'][11:19]} {name} ")
        line.append(f"{change.get('from_status') or '·'} → ", style="dim")
        line.append(change["to_status"], style=_colour(change["to_status"]))
        line.append(f"  {change.get('reason', '')}", style="dim")
        self._progress.console.print(line, soft_wrap=True)


def _counts(view: RequestView) -> str:
    return (
        f"groups {view.count('groups_done')}/{view.count('groups_total')}, files {view.count('files')}, "
        f"blocks {view.count('blocks_announced')}/{view.count('blocks')}"
    )


def _colour(status: str) -> str:
    return "bold green" if status == COMPLETED else "bold red" if status in LOST else "cyan"


def print_table(
    console: Console, views: Sequence[RequestView], merged: Mapping[str, Merged] | None = None
) -> None:
    table = Table(title="From submission to announcement")
    table.add_column("request", no_wrap=True)
    for name in ("groups", "jobs", "files", "blocks", "events", "merged events", "Z peak", "wall time"):
        table.add_column(name, justify="right")
    for view in views:
        table.add_row(
            view.name,
            f"{view.count('groups_done')}/{view.count('groups_total')}",
            str(view.count("jobs_total")),
            str(view.count("files")),
            f"{view.count('blocks_announced')}/{view.count('blocks')}",
            f"{view.count('events_done')}/{view.count('events_total')}",
            str(found.events) if (found := (merged or {}).get(view.name)) else "–",
            f"{found.peak_gev:.2f} GeV" if found else "–",
            f"{view.wall_time_sec:.1f} s",
        )
    console.print(table)


def print_places(console: Console, urls: Mapping[str, str], *, password_file: Path) -> None:
    for name, place in {**urls, "login": f"operator, password in {password_file}"}.items():
        console.print(f"{name:<9} {place}", markup=False, highlight=False, soft_wrap=True)
