"""The peer of B2: WMCore's splitter on the benchmark's dataset. Runs in a Python that has `wmcore`.

    python wmcore_peer.py ALGORITHM FILES PARAMETERS

Prints "ready" when the input is built. Then, for every line on standard input, prints the CPU seconds of one
splitting
and the number of jobs.
"""

# mypy: disable-error-code="import-not-found"
from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from WMCore.DataStructs.File import File
from WMCore.DataStructs.Fileset import Fileset
from WMCore.DataStructs.Run import Run
from WMCore.DataStructs.Subscription import Subscription
from WMCore.DataStructs.Workflow import Workflow
from WMCore.JobSplitting.SplitterFactory import SplitterFactory

from benchmarks import dataset

PERFORMANCE = {"timePerEvent": 1, "sizePerEvent": 1.5, "memoryRequirement": 2000}


def build_files(count: int) -> set[Any]:
    """Return the dataset as files of WMCore."""
    files = set()
    for number in range(count):
        lumis = dataset.lumis_of(number)
        file = File(
            lfn=dataset.lfn_of(number),
            size=2_000_000_000,
            events=dataset.EVENTS_PER_FILE,
            locations=set(dataset.places_of(number)),
        )
        file.addRun(Run(lumis[0][0], *(lumi for _, lumi in lumis)))
        files.add(file)
    return files


def split(algorithm: str, files: set[Any], parameters: dict[str, Any]) -> tuple[float, int]:
    """Split once. Return the CPU seconds and the jobs."""
    fileset = Fileset(name="benchmark", files=set(files))
    subscription = Subscription(fileset=fileset, workflow=Workflow(), split_algo=algorithm, type="Processing")
    began = time.process_time()
    splitter = SplitterFactory()(package="WMCore.DataStructs", subscription=subscription)
    groups = splitter(performance=PERFORMANCE, **parameters)
    return time.process_time() - began, sum(len(group.jobs) for group in groups)


def main() -> None:
    algorithm, count, parameters = sys.argv[1], int(sys.argv[2]), json.loads(sys.argv[3])
    files = build_files(count)
    print("ready", flush=True)
    for _ in sys.stdin:
        seconds, jobs = split(algorithm, files, parameters)
        print(json.dumps({"seconds": seconds, "jobs": jobs}), flush=True)


if __name__ == "__main__":
    main()
