"""A web process without a server in front: reads one command a line, answers one JSON a line.

`GET /path` calls the WSGI application as a server does; `SQL statement` runs a statement as a view does;
`CLOSE` closes the connection that both use.
"""

from __future__ import annotations

import io
import json
import sys
import time
from typing import Any
from wsgiref.util import setup_testing_defaults

from django.db import Error, close_old_connections, connection

from wms2_project.wsgi import application


def get(path: str) -> dict[str, Any]:
    """Call the application; the connection of this thread is kept from call to call."""
    result: dict[str, Any] = {}

    def start_response(status: str, headers: list[tuple[str, str]], exc_info: Any = None) -> Any:
        result.update(status=int(status.split()[0]), headers=dict(headers))

    environ: dict[str, Any] = {"wsgi.input": io.BytesIO()}
    setup_testing_defaults(environ)
    environ |= {"HTTP_AUTHORIZATION": "Bearer wms2_unknown", "HTTP_COOKIE": f"sessionid={'a' * 32}"}
    answer: Any = application(environ | {"PATH_INFO": path}, start_response)
    body = b"".join(answer)
    answer.close()
    return result | {"body": body.decode()}


def sql(statement: str) -> dict[str, Any]:
    """Run the statement at the beginning of a request and return its error, if any."""
    close_old_connections()
    try:
        with connection.cursor() as cursor:
            cursor.execute(statement)
            return {"rows": [str(one) for one in cursor.fetchone()]}
    except Error as error:
        return {"error": type(error).__name__}


def close(_: str) -> dict[str, Any]:
    """Close the connection of this thread."""
    connection.close()
    return {}


COMMANDS = {"GET": get, "SQL": sql, "CLOSE": close}


def main() -> None:
    """Serve until the input ends."""
    for line in sys.stdin:
        command, _, argument = line.strip().partition(" ")
        began = time.monotonic()
        result = COMMANDS[command](argument)
        sys.stdout.write(json.dumps(result | {"seconds": time.monotonic() - began}) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
