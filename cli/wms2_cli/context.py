"""What the commands of one call share: the connection to the server and the output format."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from wms2_cli.api import Api
from wms2_cli.config import choose_server
from wms2_cli.output import Format


@dataclass
class Session:
    """One call of the client. The server is looked up when it is first needed."""

    server: str
    form: Format

    @cached_property
    def api(self) -> Api:
        return Api(choose_server(self.server))
