"""`python -m lab.simulator.worker DATABASE_URL DIRECTORY` runs the seeds it reads and writes a verdict each.

Each line on standard input is `{"seed": N}` with optional members: `"faults": [[kind, at, amount, where], …]`
instead of the seed's own, `"changes"` of other members of its schedule, and `"patch": "module:name"`, a
function that is called first, in a separate process. Each answer is a line of JSON.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import sys
import traceback
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from lab.simulator.environment import configure

GARBAGE_EVERY = 20  # seeds; collecting it as Python does costs a tenth of the time


def main(database_url: str, directory: Path) -> None:
    """Run seeds until the input ends."""
    directory.mkdir(parents=True, exist_ok=True)
    configure(database_url=database_url, directory=directory)
    gc.collect()
    gc.freeze()
    gc.disable()
    for number, line in enumerate(sys.stdin, 1):
        wanted = json.loads(line)
        verdict = run_patched(wanted, directory) if "patch" in wanted else run(wanted, directory)
        sys.stdout.write(json.dumps(verdict) + "\n")
        sys.stdout.flush()
        if number % GARBAGE_EVERY == 0:
            gc.collect()


def run_patched(wanted: dict[str, Any], directory: Path) -> dict[str, Any]:
    """Return the verdict of a forked process that changes the code first."""
    from django.db import connection

    connection.close()
    answer = directory / "verdict.json"
    pid = os.fork()
    if not pid:
        try:
            module, _, name = wanted["patch"].partition(":")
            getattr(importlib.import_module(module), name)()
            answer.write_text(json.dumps(run(wanted, directory)))
        finally:
            os._exit(0)
    os.waitpid(pid, 0)
    verdict: dict[str, Any] = json.loads(answer.read_bytes())
    answer.unlink()
    return verdict


def run(wanted: dict[str, Any], directory: Path) -> dict[str, Any]:
    """Return the verdict about one seed."""
    from lab.simulator.faults import Fault, Kind, build_schedule
    from lab.simulator.trial import run_schedule

    schedule = replace(build_schedule(wanted["seed"]), **wanted.get("changes", {}))
    if "faults" in wanted:
        faults = tuple(Fault(Kind(kind), *rest) for kind, *rest in wanted["faults"])
        schedule = replace(schedule, faults=faults)
    try:
        verdict = run_schedule(schedule, directory)
    except Exception:  # noqa: BLE001 - a defect of WMS2 or of the simulator is a failure of the seed
        return {
            "schedule": str(schedule),
            "problems": [traceback.format_exc(limit=-8)],
            "seed": wanted["seed"],
        }
    return {
        "seed": schedule.seed,
        "schedule": str(schedule),
        "faults": [[fault.kind, fault.at, fault.amount, fault.where] for fault in schedule.faults],
        "hit": [str(fault) for fault in verdict.hit],
        "kinds": sorted(fault.kind for fault in verdict.hit),
        "problems": list(verdict.problems),
        "status": verdict.status,
        "counts": asdict(verdict.counts),
        "virtual_sec": round(verdict.virtual_sec),
    }


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
