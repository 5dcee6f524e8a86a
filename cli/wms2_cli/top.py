"""`wms2 top`: all open requests full screen, refreshed in place, with keys for the usual actions."""

from __future__ import annotations

from typing import Any, ClassVar

from rich.text import Text
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical, VerticalScroll
from textual.screen import ModalScreen
from textual.widgets import DataTable, Footer, Header, Input, Static

from wms2_cli.api import segment
from wms2_cli.context import Session
from wms2_cli.errors import CliError
from wms2_cli.output import COLOURS, clean, flat
from wms2_cli.reads import COLUMNS as LISTED
from wms2_cli.reads import explain

OPEN = (
    "held", "partial", "active", "stopping", "resubmitting", "planning", "pilot_running", "queued",
    "submitted",
)  # fmt: skip
COLUMNS = [LISTED[index] for index in (0, 1, 4, 2, 6, 5, 3)]  # most important first
ROWS = 300
TIMEOUT_SEC = 10.0  # for the list: it is read again soon, and a call delays the end of the program


class Explanation(ModalScreen[None]):
    """Screen with an explanation, shown above the table until it is closed."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,q,enter", "dismiss", "Close")]

    def __init__(self, text: str) -> None:
        super().__init__()
        self._text = text

    def compose(self) -> ComposeResult:
        with VerticalScroll(classes="dialog"):
            yield Static(self._text, markup=False)
        yield Footer()


class Reason(ModalScreen[str]):
    """Dialog for the reason of an operation."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "dismiss('')", "Cancel")]

    def __init__(self, question: str) -> None:
        super().__init__()
        self._question = question

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog"):
            yield Static(self._question, markup=False)
            yield Input(placeholder="Reason, recorded with your name. Enter confirms, Esc cancels.")
        yield Footer()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        if event.value.strip():
            self.dismiss(event.value.strip())


class Top(App[None]):
    """Table of the open requests: held ones first, then running, then waiting ones."""

    TITLE = "WMS2"
    ENABLE_COMMAND_PALETTE = False
    CSS = """
    Explanation, Reason { align: center middle; }
    .dialog { width: 90%; height: auto; max-height: 90%; padding: 1 2; border: round $primary; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("w", "why", "Why"),
        Binding("s", "operate('stop')", "Stop"),
        Binding("l", "operate('release')", "Release"),
        Binding("r", "refresh_rows", "Refresh"),
        Binding("q", "quit", "Quit"),
    ]

    def __init__(self, session: Session, interval: float) -> None:
        super().__init__()
        self._session, self._interval = session, interval
        self._list_api = session.connect(timeout_sec=TIMEOUT_SEC)
        self._names: list[str] = []
        self._reading = False

    def compose(self) -> ComposeResult:
        yield Header(show_clock=True)
        yield DataTable(cursor_type="row", zebra_stripes=True)
        yield Footer()

    def on_mount(self) -> None:
        self.query_one(DataTable).add_columns(*(column.title for column in COLUMNS))
        self.action_refresh_rows()
        self.set_interval(self._interval, self.action_refresh_rows)

    def on_data_table_row_selected(self) -> None:
        self.action_why()

    def action_refresh_rows(self) -> None:
        """Read the requests again, unless an earlier reading has not ended."""
        if not self._reading:
            self._reading = True
            self.run_worker(self._read, thread=True)

    def _read(self) -> None:
        try:
            rows = list(self._list_api.pages("requests", limit=ROWS, status=list(OPEN)))
        except CliError as error:
            self.call_from_thread(self._say, str(error).splitlines()[0])
        else:
            rows.sort(key=lambda row: (OPEN.index(row["status"]), -row["priority"], row["request_name"]))
            self.call_from_thread(self._show, rows)
        finally:
            self._reading = False

    def _show(self, rows: list[dict[str, Any]]) -> None:
        """Show the rows. Cursor and scroll position stay."""
        table = self.query_one(DataTable)
        chosen, position = self._chosen(), table.scroll_offset
        self._names = [row["request_name"] for row in rows]
        table.clear()
        for row in rows:
            cells = [flat(column.cell(row)) for column in COLUMNS]
            table.add_row(*(Text(cell, style=COLOURS.get(cell, "")) for cell in cells))
        if chosen in self._names:
            table.move_cursor(row=self._names.index(chosen), scroll=False)
        table.scroll_to(*position, animate=False)
        many = f"the {ROWS} newest" if len(rows) == ROWS else str(len(rows))
        self._say(f"{many} open requests")

    def _say(self, text: str) -> None:
        self.sub_title = clean(text)

    def _chosen(self) -> str:
        """Return the name of the request under the cursor; empty if there is none."""
        row = self.query_one(DataTable).cursor_row
        return self._names[row] if row < len(self._names) else ""

    def action_why(self) -> None:
        if name := self._chosen():
            self.run_worker(lambda: self._explain(name), thread=True)

    def _explain(self, name: str) -> None:
        try:
            text = explain(self._session.connect().get(f"requests/{segment(name)}/why"))
        except CliError as error:
            text = str(error)
        self.call_from_thread(self.push_screen, Explanation(f"{name}\n\n{clean(text)}"))

    def action_operate(self, operation: str) -> None:
        if name := self._chosen():
            self.push_screen(
                Reason(f"{operation.capitalize()} {name}"),
                lambda reason: self._begin(operation, name, reason or ""),
            )

    def _begin(self, operation: str, name: str, reason: str) -> None:
        if reason:
            self.run_worker(lambda: self._operate(operation, name, reason), thread=True)

    def _operate(self, operation: str, name: str, reason: str) -> None:
        path = f"requests/{segment(name)}/{operation}"
        try:
            answer = self._session.connect().call("POST", path, {"reason": reason})
        except CliError as error:
            self.notify(clean(error), title=f"{operation} {name}", severity="error", markup=False)
        else:
            self.notify(clean(answer.message or "done"), title=f"{operation} {name}", markup=False)
        self.call_from_thread(self.action_refresh_rows)


def run(session: Session, interval: float) -> None:
    """Show the screen until it is left."""
    Top(session, interval).run()
