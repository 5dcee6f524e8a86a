"""DAGs for a real pool: written, submitted, waited for, and cleared from the queue afterwards."""

from __future__ import annotations

import json
import os
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from condor.dagfile import WrittenDag, read_assets, write_dag
from condor.layout import Asset, DagLayout, DagmanSettings, GroupLayout, NodeLayout, Retries
from condor.types import DagmanAd
from sandbox import build
from sandbox.build import build_sandbox, copy_run_script, copy_scripts

# Stand-ins for the sandbox: small scripts, controlled by jobs.json.
RUN = rb"""#!/bin/bash
role=$1 node=$2 site=$3
behaviour=$(sed -n "s/.*\"$node\": \"\([^\"]*\)\".*/\1/p" jobs.json)
case $behaviour$WMS2_ATTEMPT in killed-once0) kill -9 $$ ;; failed-once0) exit 5 ;; esac
mkdir -p back
facts="\"attempt\": $WMS2_ATTEMPT, \"memory_mb\": $WMS2_MEMORY_MB"
echo "{\"role\": \"$role\", \"site\": \"$site\", $facts}" >back/$node.report.json
[ -d reports ] && ls reports >back/$node.seen
case $behaviour in
    sleep) sleep 300 ;;
    exit-*) exit "${behaviour#exit-}" ;;
    no-output) rm -r back ;;
esac
exit 0
"""
ELECT = rb"""#!/bin/bash
[ "$2" = 0 ] || exit 1
site=$(awk -v job="001 ($(printf %03d "${3%%.*}")." '
    index($0, job) == 1 { on = 1; next } /^\.\.\./ { on = 0 }
    on && /GLIDEIN_CMSSite/ { gsub(/.*= "|"$/, ""); site = $0 } END { print site }' group.dag.nodes.log)
[ -n "$site" ] || exit 1
touch raised.inc
mkdir -p reports
echo "elected_site = $site" >elected_site.inc.tmp && mv elected_site.inc.tmp elected_site.inc
"""
POST = rb"""#!/bin/bash
echo "$*" >>post.log
env >post.env
[ "$2" = -9 ] && printf '%s = %s\n' memory_$1 96 disk_$1 2048 wall_time_$1 20 >>raised.inc
case $2 in 0 | 42 | 43) exit "$2" ;; *) exit 1 ;; esac
"""
ASSETS = (
    Asset("run.sh", RUN, executable=True),
    Asset("sandbox.tar.gz", b"unused"),
    Asset("scripts/elect_site.sh", ELECT, executable=True),
    Asset("scripts/post.sh", POST, executable=True),
    Asset("scripts/landing.sh", (build.SOURCE / "landing.sh").read_bytes(), executable=True),
)
FAST = DagmanSettings(status_interval_sec=1, queue_update_sec=1, log_scan_sec=1)
WORKFLOW_ID = "0b8e5a3c-7a51-4d6a-9a3f-0d5f3c1e2b44"
DATASET = "/MinBias/Test-v1/GEN-SIM"


def pool_sites() -> tuple[str, ...]:
    """Return the sites of the pool's slots."""
    if not os.environ.get("CONDOR_CONFIG"):
        pytest.fail("CONDOR_CONFIG is not set: start a pool and name its configuration file", pytrace=False)
    import htcondor2

    slots = htcondor2.Collector().query(htcondor2.AdType.Startd, projection=["GLIDEIN_CMSSite"])
    return tuple(sorted({slot["GLIDEIN_CMSSite"] for slot in slots}))


def sandbox_assets(directory: Path) -> tuple[Asset, ...]:
    """Build the real sandbox and its scripts in the directory; return them as assets."""
    directory.mkdir()
    copy_run_script(directory / "run.sh")
    build_sandbox(directory / "sandbox.tar.gz", plugins=("lab.toy",))
    copy_scripts(directory / "scripts", plugins=("lab.toy",))
    return read_assets(directory)


def manifest(storage: Path, jobs: int) -> bytes:
    """Return the jobs.json of a group of generating jobs that the real sandbox accepts.

    The directories that play the sites' storages are made: a job does not create missing storage.
    """
    for site in pool_sites():
        (storage / site).mkdir(parents=True, exist_ok=True)

    def job(index: int) -> dict[str, Any]:
        first = index * 10 + 1
        window = {"first_event": first, "last_event": first + 9, "first_lumi": index + 1}
        generate = window | {"events_per_lumi": 10, "run": 1}
        return {"files": [], "generate": generate, "mask": None, "events": 10}

    outputs = {
        "dataset": DATASET,
        "unmerged_base": "/store/unmerged/Test/MinBias/GEN-SIM/v1",
        "merged_base": "/store/mc/Test/MinBias/GEN-SIM/v1",
    }
    return json.dumps(
        {
            "schema": 1,
            "request_name": "ana_test-v1",
            "workflow_id": WORKFLOW_ID,
            "round": 0,
            "group": "mg_000000",
            "storage": f"{storage}/{{site}}",
            "outputs": [outputs],
            "pilot": None,
            "merged_ids": {DATASET: "c0ffee00c0ffee00c0ffee00c0ffee00"},
            "jobs": {f"proc_{n:06d}": job(n) for n in range(jobs)},
        }
    ).encode()


@dataclass
class Bench:
    """Writes DAGs, submits them, waits for conditions, and clears the queue afterwards."""

    schedd: Any  # a Schedd; a stand-in may write and submit
    root: Path
    sites: tuple[str, ...]
    submitted: list[str] = field(default_factory=list)

    def layout(
        self,
        behaviour: Mapping[str, str] | None = None,
        *,
        groups: int | Sequence[GroupLayout] = 1,
        **changes: Any,
    ) -> DagLayout:
        if isinstance(groups, int):
            groups = [self._group(index, behaviour or {}) for index in range(groups)]
        values: dict[str, Any] = {
            "payload": b'{"kind": "toy"}',
            "groups": groups,
            "assets": ASSETS,
            "settings": FAST,
            "retries": Retries(landing=1, processing=1, merge=1, cleanup=1, cooloff_sec=0),
            "merge": NodeLayout("merge", memory_mb=64, cpus=1, disk_kb=1024, wall_minutes=10),
            "cleanup": NodeLayout("cleanup", memory_mb=64, cpus=1, disk_kb=1024, wall_minutes=10),
            "held_grace_sec": 0,
            "priority": 1_000_000,  # before the requests that other tests run on this pool
        }
        return DagLayout("ana_test-v1", WORKFLOW_ID, **(values | changes))

    def _group(self, index: int, behaviour: Mapping[str, str]) -> GroupLayout:
        names = [f"proc_{2 * index + n:06d}" for n in range(2)]
        return GroupLayout(
            name=f"mg_{index:06d}",
            sites=self.sites,
            nodes=[NodeLayout(name, memory_mb=64, cpus=1, disk_kb=1024, wall_minutes=10) for name in names],
            manifest=json.dumps({name: behaviour.get(name, "ok") for name in names}, indent=0).encode(),
        )

    def write(self, layout: DagLayout) -> WrittenDag:
        return write_dag(layout, self.root / str(uuid.uuid4()))

    def new_name(self) -> str:
        """Return a batch name that `clear` will remove."""
        name = f"wms2-{uuid.uuid4()}"
        self.submitted.append(name)
        return name

    def submit(self, written: WrittenDag) -> str:
        name = self.new_name()
        self.schedd.submit_dag(written.dag_file, name)
        return name

    def jobs(self, name: str, *attributes: str) -> list[dict[str, Any]]:
        """Return the batch's jobs in the queue, DAGMans included."""
        wanted = ["ClusterId", "JobUniverse", "JobStatus", "DAGNodeName", *attributes]
        found: list[dict[str, Any]] = self.schedd._query(f'JobBatchName == "{name}"', wanted)
        return found

    def gone(self, name: str) -> bool:
        return not self.jobs(name)

    def running(self, name: str) -> set[str]:
        return {
            job["DAGNodeName"] for job in self.jobs(name) if job["JobUniverse"] == 5 and job["JobStatus"] == 2
        }

    def past(self, name: str, *attributes: str) -> list[dict[str, Any]]:
        """Return the batch's finished vanilla jobs, oldest first."""
        ads = self.schedd._call(
            "history",
            constraint=f'JobBatchName == "{name}" && JobUniverse == 5',
            attributes=["DAGNodeName", *attributes],
            limit=-1,
            since=None,
        )
        return list(reversed(ads))

    def wait(self, what: Callable[[], object], seconds: float = 900) -> None:
        deadline = time.monotonic() + seconds
        while not what():
            assert time.monotonic() < deadline, "it did not happen in time"
            time.sleep(0.3)

    def finish(self, name: str, seconds: float = 900) -> DagmanAd:
        found: list[DagmanAd] = []

        def ended() -> bool:
            _, ad = self.schedd.find_dag(name)
            if ad is not None and ad.finished:
                found.append(ad)
            return bool(found)

        self.wait(ended, seconds)
        return found[0]

    def clear(self) -> None:
        for name in self.submitted:
            if self.jobs(name):
                self.schedd.remove_dag(name, reason="the test is over")
                self.wait(partial(self.gone, name))
