"""Count what ROOT files hold, in a process of its own: the files are written by jobs and untrusted.

Reads {"urls": […], "token": …, "ca_file": …} from standard input and writes one JSON line per file, in order:
`events`, `trees` and `lumi_events`; or `problem` of the file; or `other` if it is no ROOT file; or
`unavailable` if its storage does not answer.
"""

from __future__ import annotations

import json
import resource
import sys
from typing import Any

from rootfiles.errors import MISSING_TREE, NOT_ROOT, OUT_OF_MEMORY, UNREACHABLE, RootFileError
from rootfiles.inspect import inspect
from sandbox.storage import Storage, StorageError

MEMORY_BYTES = 2 * 1024 * 1024 * 1024
CPU_SEC = 120  # for one file
MAX_RANGES = 20_000  # of lumis, in one file: more were refused in the job's report


def main() -> None:
    _lower(resource.RLIMIT_DATA, MEMORY_BYTES)
    task = json.load(sys.stdin)
    storage = Storage(token=lambda: str(task["token"]), ca_file=task["ca_file"])
    for url in task["urls"]:
        used = resource.getrusage(resource.RUSAGE_SELF)
        _lower(resource.RLIMIT_CPU, int(used.ru_utime + used.ru_stime) + CPU_SEC)
        sys.stdout.write(json.dumps(_inspected(storage, url)) + "\n")
        sys.stdout.flush()


def _inspected(storage: Storage, url: str) -> dict[str, Any]:
    try:
        with storage.open(url) as handle:
            facts = inspect(handle)
    except StorageError as error:
        return {"unavailable": error.message}
    except RootFileError as error:
        if error.kind == UNREACHABLE:
            return {"unavailable": error.message}
        if error.kind == NOT_ROOT:
            return {"other": True}
        if error.kind == MISSING_TREE:
            return {"events": 0, "trees": {}, "lumi_events": None}
        return {"problem": f"{error.kind}: {error.message}"}
    except (MemoryError, RecursionError) as error:
        return {"problem": f"{OUT_OF_MEMORY}: {error}"}
    ranges = sum(map(len, (facts.lumi_events or {}).values()))
    if ranges > MAX_RANGES:
        return {"problem": f"{ranges} ranges of lumis, at most {MAX_RANGES} are allowed"}
    return {"events": facts.events, "trees": facts.trees, "lumi_events": facts.lumi_events}


def _lower(kind: int, value: int) -> None:
    _, hard = resource.getrlimit(kind)
    resource.setrlimit(kind, (value if hard == resource.RLIM_INFINITY else min(value, hard), hard))


if __name__ == "__main__":
    main()
