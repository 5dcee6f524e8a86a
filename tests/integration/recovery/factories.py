"""A planned round in the tables and on disk, and groups that end as a test wants them to.

All is real except for DAGMan: its files and those of POST scripts are written here.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from django.utils import timezone

from dags_app.failures import repair
from dags_app.models import DAG, InputFile, MergeGroup, Workflow
from dags_app.services import production
from dags_app.states import DAGStatus, GroupStatus
from requests_app.lifecycle import handlers
from requests_app.lifecycle.outcome import Move
from requests_app.models import Request
from requests_app.states import RequestStatus
from sandbox.claims import planned_lumis
from sandbox.manifest import GroupManifest, MergedFile, Metrics, read_jobs, write_group_manifest
from sites_app.selectors import usable_sites
from tests.dagfiles import allowed_sites

CERN, DESY, PURDUE = "T2_CH_CERN", "T2_DE_DESY", "T2_US_Purdue"


@dataclass
class Round:
    """A request in production; its newest DAG is `dag`."""

    request: Request

    @property
    def workflow(self) -> Workflow:
        return Workflow.objects.get(pk=self.request.workflow_id)

    @property
    def dag(self) -> DAG:
        dag = production.newest_dag(workflow=self.workflow)
        assert dag is not None
        return dag

    @property
    def groups(self) -> list[MergeGroup]:
        return list(self.dag.round.groups.order_by("index"))

    def directory(self, index: int) -> Path:
        return Path(self.dag.submit_dir) / f"mg_{index:06d}"

    def jobs_of(self, index: int) -> dict[str, Any]:
        return dict(json.loads((self.directory(index) / "jobs.json").read_text())["jobs"])

    def file(self, lfn: str) -> InputFile:
        return InputFile.objects.get(workflow=self.workflow, lfn=lfn)

    def lfns_of(self, index: int) -> list[str]:
        return [file["lfn"] for job in self.jobs_of(index).values() for file in job["files"]]

    def reading(self, site: str) -> list[int]:
        """Return the groups that may run at this site, by their files."""
        return [one.index for one in self.groups if site in allowed_sites(self.directory(one.index))]

    def finish(self, index: int, site: str = CERN) -> None:
        """Finish the group and record it in the tables."""
        group = self.dag.round.groups.filter(index=index)
        group.update(status=GroupStatus.COLLECTED, site=site, finished_at=timezone.now())
        self.dag.round.files.filter(first_group=index, state="assigned").update(state="processed")

    def merge(self, index: int, site: str = CERN) -> None:
        """Finish the group and write its manifest, without collecting it."""
        plan, group = read_jobs(self.directory(index) / "jobs.json"), self.groups[index]
        lumis = planned_lumis(plan.jobs.values(), plan) or {}
        outputs = tuple(
            MergedFile(one.dataset, plan.merged_lfn(one), 1000, "0123abcd", 10, lumis, ())
            for one in plan.outputs
        )
        metrics = Metrics(0.1, 50, 1.0, 0.9, group.jobs, 10.0)
        manifest = GroupManifest(
            plan.workflow_id, plan.round, plan.group, site, group.jobs, 10, 10, outputs, metrics, None
        )
        write_group_manifest(self.directory(index) / "merge_output.json", manifest)
        self.dag.round.groups.filter(index=index).update(status=GroupStatus.DONE)

    def fail(self, index: int, site: str = CERN, *, nodes: Sequence[str] = (), **values: Any) -> None:
        """Let the group land at the site and these nodes, else all, fail there permanently."""
        directory = self.directory(index)
        (directory / "elected_site.inc").write_text(f"elected_site = {site}\n")
        (directory / "group.dag.dagman.out").touch()
        (directory / "group.dag.rescue001").write_text("DONE landing\n")
        for node in nodes or self.jobs_of(index):
            write_record(directory, node, site=site, **values)
        self.dag.round.groups.filter(index=index).update(status=GroupStatus.FAILED)

    def end(self, status: DAGStatus = DAGStatus.PARTIAL) -> None:
        """End the DAG; unfinished groups have failed."""
        left = self.dag.round.groups.filter(status=GroupStatus.PLANNED)
        left.update(status=GroupStatus.FAILED)
        now = timezone.now()
        DAG.objects.filter(pk=self.dag.pk).update(status=status, submitted_at=now, completed_at=now)

    def move(self, status: RequestStatus, **values: Any) -> Request:
        """Set the status of the request as the lifecycle does; return it."""
        Request.objects.filter(pk=self.request.pk).update(status=status, **values)
        return Request.objects.select_related("workflow").get(pk=self.request.pk)


def write_record(directory: Path, node: str, **values: Any) -> None:
    """Write POST's record about an attempt of the node, by default the first."""
    known: dict[str, Any] = {
        "site": CERN, "category": "infrastructure", "exit_code": 60307, "message": "copy failed",
        "bad_files": (), "action": "retries_exhausted", "final": True, "memory_mb": 900,
        "memory_asked_mb": 1000, "limit": "all 4 attempts were used", "source": "wrapper", "attempt": 0,
        "removal_reason": "",
    }  # fmt: skip
    result = known | values
    record = {
        "schema": 1,
        "node_name": node,
        "timestamp": "2031-01-01T00:00:00Z",
        "attempt": result["attempt"],
        "max_retries": 3,
        "final": result["final"],
        "job": {
            "exit_code": result["exit_code"],
            "source": result["source"],
            "removal_reason": result["removal_reason"] or None,
            "site": result["site"],
            "wall_time_sec": 1.0,
            "memory_mb": result["memory_mb"],
        },
        "memory": {"requested_mb": result["memory_asked_mb"]},
        "cmssw": {"error_message": result["message"], "steps": {}},
        "classification": {
            "category": result["category"],
            "retryable": False,
            "action": result["action"],
            "reason": "for a test",
            "bad_input_files": list(result["bad_files"]),
            "limit": result["limit"],
        },
        "log_tail": f"the last lines of {node}",
    }
    (directory / f"{node}.post.{result['attempt']}.json").write_text(json.dumps(record))


def partial(round_: Round) -> Move:
    """Return the decision of the handler of partial requests."""
    outcome = handlers.on_partial(round_.move(RequestStatus.PARTIAL), timezone.now())
    assert isinstance(outcome, Move)
    return outcome


def rescued(round_: Round) -> None:
    """Prepare the rescue and update its directory, as before a submission."""
    moved = handlers.on_resubmitting(round_.move(RequestStatus.RESUBMITTING), timezone.now())
    assert isinstance(moved, Move)
    assert moved.to is RequestStatus.QUEUED
    pool = usable_sites(workflow=round_.workflow, now=timezone.now())
    repair.repair_dag(dag=round_.dag, sites=pool)


def one_bad(round_: Round, index: int, **values: object) -> None:
    """Finish all groups except this one."""
    for group in round_.groups:
        if group.index != index:
            round_.finish(group.index)
    round_.fail(index, **values)  # type: ignore[arg-type]
    round_.end()
