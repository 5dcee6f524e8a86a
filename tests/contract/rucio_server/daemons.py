"""Runs inside the server's environment: one pass of the daemons a rule needs, for every line read.

A line is {"hold": [storages], "fail": [storages]}: transfers to the first stay under way, transfers to the
second fail, all others arrive. Each pass is answered with one line.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from rucio.core.rse import get_rse_name
from rucio.core.topology import ExpiringObjectCache, Topology
from rucio.daemons.common import HeartbeatHandler
from rucio.daemons.conveyor import finisher, poller, submitter
from rucio.daemons.judge import cleaner, evaluator, injector, repairer
from rucio.db.sqla.constants import RequestState
from rucio.transfertool import mock

wishes: dict[str, list[str]] = {"hold": [], "fail": []}


def answer_for(self: Any, requests_by_eid: Any, timeout: Any = None) -> dict[str, Any]:
    """Return the state that the transfer tool would report."""
    reports: dict[str, Any] = {}
    for transfer, requests in requests_by_eid.items():
        for request_id, request in requests.items():
            report = mock.MockTransferStatusReport(request_id, transfer)
            target = get_rse_name(rse_id=request["dest_rse_id"])
            if target in wishes["hold"]:
                report.state = RequestState.SUBMITTED
            elif target in wishes["fail"]:
                report.state = RequestState.FAILED
            reports.setdefault(transfer, {})[request_id] = report
    return reports


def run_once(name: str, daemon: Any, **arguments: Any) -> None:
    with HeartbeatHandler(executable=name, renewal_interval=30) as heartbeat:
        daemon.run_once(heartbeat_handler=heartbeat, **arguments)


def tick(topology: Any) -> None:
    run_once("judge-injector", injector, paused_rules={})
    run_once("judge-evaluator", evaluator, paused_dids={}, did_limit=1000)
    common = {"once": True, "partition_wait_time": 0, "cached_topology": topology}
    submitter.submitter(bulk=1000, group_bulk=100, transfertools=["mock"], **common)
    poller.poller(older_than=0, transfertool="mock", fts_bulk=1000, **common)
    finisher.finisher(**common)
    run_once("judge-repairer", repairer, paused_rules={}, delta=-1)
    run_once("judge-cleaner", cleaner, paused_rules={})


def main() -> None:
    mock.MockTransfertool.bulk_query = answer_for
    topology = ExpiringObjectCache(ttl=300, new_obj_fnc=lambda: Topology())
    answers = sys.stdout
    sys.stdout = sys.stderr  # daemons may print; the answers stay alone
    for line in sys.stdin:
        wishes.update(json.loads(line))
        tick(topology)
        answers.write("done\n")
        answers.flush()


if __name__ == "__main__":
    main()
