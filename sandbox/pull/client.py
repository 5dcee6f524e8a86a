"""Calls to WMS2 over HTTP, repeated while WMS2 does not answer. The certificate of the server is verified."""

from __future__ import annotations

import json
import ssl
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

TIMEOUT_SEC = 60.0
FIRST_PAUSE_SEC, LAST_PAUSE_SEC = 1.0, 60.0
PATIENCE_SEC = 1800.0
MAX_ANSWER = 16 * 1024 * 1024
OVER, INVALID = 410, 422


class Refused(Exception):
    """WMS2 refused a call; `status` is the HTTP status."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class Unreachable(Exception):
    """WMS2 did not answer within the time that the job retries."""


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """Refuses redirections: a token goes to the address of the manifest and to no other."""

    def redirect_request(self, *_: Any) -> None:
        return None


@dataclass
class Client:
    """The calls of one workflow's jobs. `ca_file`: authorities of the server; '' = those of this machine."""

    url: str
    workflow_id: str
    ca_file: str = ""
    patience_sec: float = PATIENCE_SEC
    sleep: Callable[[float], None] = time.sleep
    _opener: urllib.request.OpenerDirector = field(init=False)

    def __post_init__(self) -> None:
        tls = ssl.create_default_context(cafile=self.ca_file or None)
        self._opener = urllib.request.build_opener(urllib.request.HTTPSHandler(context=tls), _NoRedirects)

    def post(self, call: str, body: Mapping[str, Any], *, token: str, patience_sec: float = -1) -> Any:
        """Send the call until it is answered; raise Refused or Unreachable.

        Every call of a runner may be repeated, so that a lost answer does no harm.
        """
        ends = time.monotonic() + (self.patience_sec if patience_sec < 0 else patience_sec)
        pause = FIRST_PAUSE_SEC
        while True:
            try:
                return self._post(call, body, token)
            except Refused as refused:
                if refused.status != 429 and refused.status < 500:
                    raise
                problem = str(refused)
            except (
                OSError,
                ValueError,
            ) as error:  # no connection, a broken one, or an answer that is no JSON
                problem = f"{type(error).__name__}: {error}"
            if time.monotonic() + pause > ends:
                raise Unreachable(f"{call}: {problem}")
            self.sleep(pause)
            pause = min(2 * pause, LAST_PAUSE_SEC)

    def _post(self, call: str, body: Mapping[str, Any], token: str) -> Any:
        request = urllib.request.Request(  # noqa: S310 - the address is that of the manifest
            f"{self.url}/api/v1/workflows/{self.workflow_id}/{call}",
            data=json.dumps(body).encode(),
            headers={"Authorization": f"Bearer {token}", "Content-Type": "application/json"},
        )
        try:
            with self._opener.open(request, timeout=TIMEOUT_SEC) as answer:
                return json.loads(answer.read(MAX_ANSWER))
        except urllib.error.HTTPError as error:
            raise Refused(error.code, _detail(error)) from error


def _detail(error: urllib.error.HTTPError) -> str:
    """Return the error that the response describes."""
    try:
        problem = json.loads(error.read(MAX_ANSWER))
        detail = str(problem.get("detail") or error.reason)
        found = [f"{name}: {text}" for name, text in (problem.get("errors") or {}).items()]
        fields = "; ".join(one for one in found if one not in detail)
        return f"{detail} ({fields})" if fields else detail
    except (OSError, ValueError, AttributeError):
        return f"HTTP status {error.code}"
