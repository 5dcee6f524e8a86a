"""Work out the jobs of an oracle file again, with WMCore itself. Runs in a Python that has `wmcore`.

python wmcore_oracle.py oracle_more.json
"""

from __future__ import annotations

import json
import logging
import sys
from pathlib import Path
from typing import Any

from WMCore.DataStructs.File import File  # type: ignore[import-not-found]
from WMCore.DataStructs.Fileset import Fileset  # type: ignore[import-not-found]
from WMCore.DataStructs.Run import Run  # type: ignore[import-not-found]
from WMCore.DataStructs.Subscription import Subscription  # type: ignore[import-not-found]
from WMCore.DataStructs.Workflow import Workflow  # type: ignore[import-not-found]
from WMCore.JobSplitting.SplitterFactory import SplitterFactory  # type: ignore[import-not-found]

RANGES = ("FirstEvent", "LastEvent", "FirstLumi", "LastLumi", "FirstRun", "LastRun")
ESTIMATES = ("estimatedJobTime", "estimatedDiskUsage", "estimatedMemoryUsage")


def build_file(record: dict[str, Any]) -> Any:
    """Return a file as an object of WMCore."""
    file = File(
        lfn=record["lfn"], size=record["size"], events=record["events"], locations=set(record["locations"])
    )
    for run, lumis in record["runs"].items():
        file.addRun(Run(int(run), *lumis))
    if record["first_event"] is not None:
        file["first_event"] = record["first_event"]
    return file


def split(case: dict[str, Any]) -> list[Any]:
    """Return the job groups that WMCore makes for the case."""
    generates = case["files"][0]["lfn"].startswith("MCFakeFile")
    subscription = Subscription(
        fileset=Fileset(name="oracle", files={build_file(record) for record in case["files"]}),
        workflow=Workflow(),
        split_algo=case["algo"],
        type="Production" if generates else "Processing",
    )
    splitter = SplitterFactory()(package="WMCore.DataStructs", subscription=subscription)
    groups: list[Any] = splitter(performance=case["performance"], **case["params"])
    return groups


def job_record(group: int, job: Any) -> dict[str, Any]:
    """Return a job in the format of the oracle."""
    mask = job["mask"]
    return {
        "group": group,
        "files": [file["lfn"] for file in job["input_files"]],
        **{name: mask[name] for name in RANGES},
        "runAndLumis": {str(run): lumis for run, lumis in mask["runAndLumis"].items()},
        **{name: job[name] for name in ESTIMATES},
        "failedOnCreation": job.get("failedOnCreation", False),
        "failedErrCode": job.get("failedErrCode"),
    }


def main() -> None:
    logging.disable(logging.CRITICAL)
    path = Path(sys.argv[1])
    oracle = json.loads(path.read_text())
    for case in oracle["cases"]:
        groups = split(case)
        case["jobs"] = [job_record(index, job) for index, group in enumerate(groups) for job in group.jobs]
        case["njobs"], case["ngroups"] = len(case["jobs"]), len(groups)
    lines = ",\n".join(json.dumps(case, separators=(",", ":")) for case in oracle["cases"])
    path.write_text(f'{{"oracle": "{oracle["oracle"]}",\n "cases": [\n{lines}\n]}}\n')


if __name__ == "__main__":
    main()
