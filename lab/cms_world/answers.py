"""Responses of the simulated services, without sockets: routes and faults."""

from __future__ import annotations

import threading
from dataclasses import replace
from pathlib import Path

from lab.cms_world import configcache, control, cric, dbs, reqmgr2, rucio, rucio_rses
from lab.cms_world.faults import Fault, miscount, take_fault
from lab.cms_world.known import Credentials
from lab.cms_world.messages import Call, Refused, Reply, json_reply
from lab.cms_world.store import Store
from lab.grid.description import Grid


class Answers:
    """The services on the content of a directory, without a network."""

    def __init__(
        self, state_dir: Path, *, credentials: Credentials | None = None, grid: Grid | None = None
    ) -> None:
        self.credentials = credentials or Credentials()
        self.store = Store(state_dir)
        with self.store.transaction() as db:
            rucio_rses.adopt_grid(db, grid)
        self._stopping = threading.Event()

    def answer(self, call: Call) -> Reply | None:
        """Return the reply to a call; None to close the connection without one."""
        if call.service == "lab":
            return self._carry_out(call)
        with self.store.transaction() as db:
            fault = take_fault(db, call)
        return self._answer_with(fault, call) if fault else self._carry_out(call)

    def _answer_with(self, fault: Fault, call: Call) -> Reply | None:
        match fault.kind:
            case "status":
                return Reply(fault.status, b"this fault was asked for", "text/plain")
            case "timeout":
                self._stopping.wait(fault.seconds)
                return None
            case "slow":
                reply = self._carry_out(call)
                self._stopping.wait(fault.seconds)
                return reply
            case "success_then_500":
                self._carry_out(call)
                return Reply(500, b"this fault was asked for", "text/plain")
            case "duplicate":
                self._carry_out(call)
                return self._carry_out(call)
            case "wrong_counts":
                reply = self._carry_out(call)
                return replace(reply, body=miscount(reply.body))
            case _:
                return self._carry_out(replace(call, stuck=True))

    def _carry_out(self, call: Call) -> Reply:
        try:
            with self.store.transaction() as db:
                match call.service:
                    case "reqmgr2":
                        return reqmgr2.handle(call, db)
                    case "couchdb":
                        return configcache.handle(call, db)
                    case "dbs":
                        return dbs.handle(call, db)
                    case "rucio":
                        return rucio.handle(call, db, self.credentials)
                    case "cric":
                        return cric.handle(call, db)
                    case "lab":
                        return control.handle(call, db, self.credentials)
                    case _:
                        return json_reply({"error": f"no service at /{call.service}"}, 404)
        except Refused as refused:
            return refused.reply
