"""DBS, Rucio, ReqMgr2 and CRIC in this process and in virtual time: the lab's services without sockets.

The real clients call them: sessions of `requests` reach the host `cms.simulated` by an adapter.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from email.message import Message
from io import BytesIO
from pathlib import Path
from typing import Any
from unittest.mock import patch
from urllib.parse import urlsplit

import requests
from requests.adapters import BaseAdapter, HTTPAdapter
from urllib3 import HTTPResponse

from cms.cric import CricClient, CricConfig
from cms.dbs import DbsClient, DbsConfig
from cms.reqmgr2 import ReqMgr2Client, ReqMgr2Config
from cms.rucio import RucioClient
from cms.rucio_session import RucioConfig
from lab.cms_world.answers import Answers
from lab.cms_world.messages import Call, Reply, parse_target
from lab.simulator.clock import VirtualClock

URL = "http://cms.simulated"
READS = frozenset({"GET", "HEAD"})
Carry = Callable[[Call], Reply | None]


class SimulatedCms(HTTPAdapter):
    """The lab's CMS services behind the real clients.

    `intercept` gets every call and the function that carries it out. None as a reply is a lost connection.
    """

    def __init__(self, directory: Path, clock: VirtualClock) -> None:
        super().__init__()
        self.answers = Answers(directory)
        self.clock = clock
        self.calls = 0
        self.unprotected: list[str] = []
        self.intercept: Callable[[Call, Carry], Reply | None] = lambda call, carry: carry(call)
        known = self.answers.credentials
        self.dbs = DbsClient(DbsConfig(reader_url=f"{URL}/dbs/DBSReader", writer_url=f"{URL}/dbs/DBSWriter"))
        self.cric = CricClient(CricConfig(url=f"{URL}/cric"))
        self.reqmgr2 = ReqMgr2Client(ReqMgr2Config(url=f"{URL}/reqmgr2"))
        rucio = f"{URL}/rucio"
        self.rucio = RucioClient(RucioConfig(rucio, rucio, known.account, known.username, known.password))

    def control(self, method: str, path: str, body: Any) -> None:
        """Change the content of the services, as the lab's own endpoint does."""
        target, data = f"/lab/{path}", json.dumps(body).encode()
        call = Call(method, "lab", (path,), {}, Message(), data, self.clock.now, target)
        reply = self.answers.answer(call)
        if reply is None or reply.status >= 300:
            raise ValueError(f"{method} {target}: {reply}")

    @contextmanager
    def reachable(self) -> Iterator[None]:
        """Connect every session of this process to the services."""
        by_url = requests.Session.get_adapter

        def get_adapter(session: requests.Session, url: str) -> BaseAdapter:
            return self if url.startswith(URL) else by_url(session, url)

        with (
            patch.object(requests.Session, "get_adapter", get_adapter),
            patch.object(requests.sessions, "get_environ_proxies", lambda *_args, **_given: {}),
        ):
            yield

    def send(self, request: requests.PreparedRequest, *_args: Any, **_given: Any) -> requests.Response:
        parts = urlsplit(request.url or "")
        target = f"{parts.path}?{parts.query}" if parts.query else parts.path
        service, path, query = parse_target(target)
        headers = Message()
        for name, value in request.headers.items():
            headers[name] = value if isinstance(value, str) else value.decode("latin-1")
        body = request.body or b""
        call = Call(
            method=request.method or "GET",
            service=service,
            parts=path,
            query=query,
            headers=headers,
            body=body.encode() if isinstance(body, str) else bytes(body),
            now=self.clock.now,
            target=target,
        )
        self.calls += 1
        reply = self.intercept(call, self._answer)
        if reply is None:
            raise requests.ConnectionError(f"{call.method} {target}: the connection was lost")
        return self._response(request, reply)

    def _answer(self, call: Call) -> Reply | None:
        if call.method == "DELETE" and call.service == "rucio" and call.parts[:1] == ("rules",):
            self._check_release(call.parts[1])
        return self.answers.answer(call)

    def _check_release(self, rule_id: str) -> None:
        """Record a deleted rule if a block of a usable dataset has no other complete, permanent copy."""
        with self.answers.store.transaction() as db:
            rule = db.execute("SELECT name FROM rucio_rules WHERE id = ?", (rule_id,)).fetchone()
            if rule is None:
                return
            others = db.execute(
                "SELECT 1 FROM rucio_rules"
                " WHERE name = ? AND id <> ? AND state = 'OK' AND expires_at IS NULL",
                (rule["name"], rule_id),
            ).fetchone()
            dataset = rule["name"].partition("#")[0]
            state = db.execute("SELECT access_type FROM dbs_datasets WHERE name = ?", (dataset,)).fetchone()
        if others is None and state is not None and state["access_type"] != "INVALID":
            self.unprotected.append(f"{rule['name']} was released before another copy was safe")

    def _response(self, request: requests.PreparedRequest, reply: Reply) -> requests.Response:
        headers = {"Content-Type": reply.content_type, **reply.headers}
        raw = HTTPResponse(
            body=BytesIO(reply.body), headers=headers, status=reply.status, preload_content=False
        )
        return self.build_response(request, raw)
