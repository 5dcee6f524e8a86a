"""A program for tests: a supervisor of the services described in JSON, in a separate process.

usage: little_stack.py HOME '[{"name": …, "script": …, …}, …]' '[[names stopped first], …]'
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from pathlib import Path

from lab import service as service_policy
from lab.errors import LabError
from lab.paths import Layout
from lab.service import Service, says
from lab.state import Phase
from lab.supervisor import Supervisor, note


def main(home: str, described: str, order: str) -> int:
    layout = Layout(home=Path(home), app=Path.cwd(), venv=Path(sys.prefix))
    services = [
        Service(
            name=each["name"],
            argv=["/bin/bash", "-c", each["script"]],
            ready=says("ready"),
            log=layout.log / f"{each['name']}.log",
            cwd=layout.home / each.get("cwd", ""),
            insist_signal=signal.Signals[each["insist"]] if "insist" in each else None,
            grace_sec=each.get("grace_sec", 2.0),
        )
        for each in json.loads(described)
    ]
    service_policy.RESTART_DELAY_SEC = service_policy.MAX_RESTART_DELAY_SEC = 0.05
    for service in services:
        service.cwd.mkdir(exist_ok=True)
    supervisor = Supervisor(layout, os.environ)
    try:
        supervisor.start(*services)
        while not all(service.output for service in services):  # on a busy machine that may take long
            supervisor.tick()
            time.sleep(0.02)
        supervisor.wait_ready(*services, timeout_sec=float(os.environ.get("READY_SEC", "120")))
        if step := os.environ.get("STEP"):
            supervisor.run_step("the step", ["/bin/bash", "-c", step], env={}, cwd=layout.home)
        supervisor.enter(Phase.READY)
        supervisor.watch()
    except LabError as error:
        note(f"gave up: {error}")
        return 1
    finally:
        supervisor.stop(json.loads(order))
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
