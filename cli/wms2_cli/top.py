"""`wms2 top`: all open requests full screen, refreshed in place, with keys for the usual actions."""

from __future__ import annotations

from typing import Any, ClassVar

from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.screen import ModalScreen
from textual.widgets import DataTable, Footer, Header, Input, Static

from wms2_cli.api import segment
from wms2_cli.context import Session
from wms2_cli.errors import CliError
from wms2_cli.output import age, clean
from wms2_cli.requests import COLUMNS

OPEN = (
    "held", "partial", "active", "stopping", "resubmitting", "planning", "pilot_running", "queued",
    "submitted",
)  # fmt: skip
ROWS = 300


class Text(ModalScreen[None]):
    """A text over the table, until a key is pressed."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,q,enter", "dismiss", "Close")]

    def __init__(self, text: str) -> None:
        super().__init__()
        self._text = text

    def compose(self) -> ComposeResult:
        with VerticalScroll():
            yield Static(self._text, markup=False)
        yield Footer()


class Reason(ModalScreen[str]):
    """Asks for the reason of an operation."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "dismiss('')", "Cancel")]

    def __init__(self, question: str) -> None:
        super().__init__()
        self._question = question

    def compose(self) -> ComposeResult:
        yield Static(self._question, markup=False)
        yield Input(placeholder="reason")
        yield Footer()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        self.dismiss(event.value)


class Top(App[None]):
    """The fleet: requests that need somebody first."""

    TITLE = "WMS2"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("w,enter", "why", "Why"),
        Binding("s", "operate('stop')", "Stop"),
        Binding("l", "operate('release')", "Release"),
        Binding("r", "refresh_rows", "Refresh"),
        Binding("q", "quit", "Quit"),
    ]

    def __init__(self, session: Session, interval: float) -> None:
        super().__init__()
        self._session, self._interval = session, interval

    def compose(self) -> ComposeResult:
        yield Header(show_clock=True)
        yield DataTable(cursor_type="row", zebra_stripes=True)
        yield Footer()

    def on_mount(self) -> None:
        self.query_one(DataTable).add_columns(*(column.title for column in COLUMNS))
        self.action_refresh_rows()
        self.set_interval(self._interval, self.action_refresh_rows)

    def action_refresh_rows(self) -> None:
        self.run_worker(self._read, thread=True, exclusive=True)

    def _read(self) -> None:
        try:
            rows = list(self._session.api.pages("requests", limit=ROWS, status=list(OPEN)))
        except CliError as error:
            self.call_from_thread(self._say, str(error).splitlines()[0])
            return
        rows.sort(key=lambda row: (OPEN.index(row["status"]), -row["priority"], row["request_name"]))
        self.call_from_thread(self._show, rows)

    def _show(self, rows: list[dict[str, Any]]) -> None:
        table = self.query_one(DataTable)
        chosen = self._chosen()
        table.clear()
        for row in rows:
            name = row["request_name"]
            table.add_row(*(clean(column.cell(row)) for column in COLUMNS), key=name)
            if name == chosen:
                table.move_cursor(row=table.row_count - 1)
        self._say(f"{len(rows)} open requests")

    def _say(self, text: str) -> None:
        self.sub_title = text

    def _chosen(self) -> str:
        table = self.query_one(DataTable)
        if not table.row_count:
            return ""
        return str(table.coordinate_to_cell_key(table.cursor_coordinate).row_key.value)

    def action_why(self) -> None:
        if name := self._chosen():
            self.push_screen(Text(self._explain(name)))

    def _explain(self, name: str) -> str:
        try:
            body = self._session.api.get(f"requests/{segment(name)}/why")
        except CliError as error:
            return str(error)
        lines = [name, "", clean(body["summary"]), f"status {body['status']} for {age(body['status_since'])}"]
        for gate in body["gates"]:
            if gate["verdict"] == "block":
                lines += [
                    "",
                    clean(f"{gate['name']}: {gate['detail']}"),
                    clean(f"  remedy: {gate['remedy']}"),
                ]
        return "\n".join(lines)

    def action_operate(self, operation: str) -> None:
        if name := self._chosen():
            self.push_screen(
                Reason(f"{operation} {name}"), lambda reason: self._operate(operation, name, reason)
            )

    def _operate(self, operation: str, name: str, reason: str | None) -> None:
        if not reason:
            return
        try:
            answer = self._session.api.call(
                "POST", f"requests/{segment(name)}/{operation}", {"reason": reason}
            )
            self.notify(clean(answer.get("message") or answer.get("status") or "done"), title=name)
        except CliError as error:
            self.notify(clean(error), title=f"{operation} {name}", severity="error")
        self.action_refresh_rows()


def run(session: Session, interval: float) -> None:
    """Show the screen until it is left."""
    Top(session, interval).run()
