"""State shared by the commands of one call: the connection to the server and the output format."""

from __future__ import annotations

from functools import cached_property

from wms2_cli.api import TIMEOUT_SEC, Api
from wms2_cli.config import choose_server
from wms2_cli.output import Format


class Session:
    """One call of the client. The server is looked up when it is first needed."""

    def __init__(self, server: str, form: Format) -> None:
        self.server, self.form = server, form

    @cached_property
    def api(self) -> Api:
        return self.connect()

    def connect(self, *, timeout_sec: float = TIMEOUT_SEC) -> Api:
        """Return a connection of its own, for another thread."""
        return Api(choose_server(self.server), timeout_sec=timeout_sec)
