"""A planned round in the tables and on disk, and groups that end as a test wants them to.

Everything is real but DAGMan: what it and the POST scripts leave behind is written here instead.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from django.utils import timezone

from dags_app.models import DAG, InputFile, MergeGroup, Workflow
from dags_app.services import production
from dags_app.states import DAGStatus, GroupStatus
from requests_app.models import Request
from requests_app.states import RequestStatus
from sandbox.claims import planned_lumis
from sandbox.manifest import GroupManifest, MergedFile, Metrics, read_jobs, write_group_manifest
from sites_app.selectors import usable_sites
from tests.dagfiles import allowed_sites
from tests.integration.factories import make_file, make_request, make_site, make_workflow
from tests.stand_in import OwnFilesDbs

CERN, DESY, PURDUE = "T2_CH_CERN", "T2_DE_DESY", "T2_US_Purdue"


@pytest.fixture(autouse=True)
def _own_submit_root(settings: Any, tmp_path: Path, adapt: Callable[..., None]) -> None:
    settings.SUBMIT_ROOT = str(tmp_path)
    settings.STORAGE_PREFIX = "/srv/storage/{site}"
    adapt(dbs=OwnFilesDbs())  # these files are in no other


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
        """The groups that may run at this site, as they stand on disk."""
        return [one.index for one in self.groups if site in allowed_sites(self.directory(one.index))]

    def finish(self, index: int, site: str = CERN) -> None:
        """The group is done and in our tables."""
        group = self.dag.round.groups.filter(index=index)
        group.update(status=GroupStatus.COLLECTED, site=site, finished_at=timezone.now())
        self.dag.round.files.filter(first_group=index, state="assigned").update(state="processed")

    def merge(self, index: int, site: str = CERN) -> None:
        """The group is done; its manifest waits to be collected."""
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
        """The group landed at the site; these nodes (else all) failed there for good."""
        directory = self.directory(index)
        (directory / "elected_site.inc").write_text(f"elected_site = {site}\n")
        (directory / "group.dag.dagman.out").touch()
        (directory / "group.dag.rescue001").write_text("DONE landing\n")
        for node in nodes or self.jobs_of(index):
            write_record(directory, node, site=site, **values)
        self.dag.round.groups.filter(index=index).update(status=GroupStatus.FAILED)

    def end(self, status: DAGStatus = DAGStatus.PARTIAL) -> None:
        """DAGMan has left the queue; groups that did not finish have failed."""
        left = self.dag.round.groups.filter(status=GroupStatus.PLANNED)
        left.update(status=GroupStatus.FAILED)
        now = timezone.now()
        DAG.objects.filter(pk=self.dag.pk).update(status=status, submitted_at=now, completed_at=now)

    def move(self, status: RequestStatus, **values: Any) -> Request:
        """The request as the lifecycle would have it now."""
        Request.objects.filter(pk=self.request.pk).update(status=status, **values)
        return Request.objects.select_related("workflow").get(pk=self.request.pk)


def write_record(directory: Path, node: str, **values: Any) -> None:
    """What POST would have concluded about the node's last attempt."""
    known: dict[str, Any] = {
        "site": CERN, "category": "infrastructure", "exit_code": 60307, "message": "copy failed",
        "bad_files": (), "action": "retries_exhausted", "final": True, "memory_mb": 900,
        "memory_asked_mb": 1000, "limit": "all 4 attempts were used", "source": "wrapper",
    }  # fmt: skip
    told = known | values
    record = {
        "schema": 1,
        "node_name": node,
        "timestamp": "2031-01-01T00:00:00Z",
        "attempt": 0,
        "max_retries": 3,
        "final": told["final"],
        "job": {
            "exit_code": told["exit_code"],
            "source": told["source"],
            "site": told["site"],
            "wall_time_sec": 1.0,
            "memory_mb": told["memory_mb"],
        },
        "memory": {"requested_mb": told["memory_asked_mb"]},
        "cmssw": {"error_message": told["message"], "steps": {}},
        "classification": {
            "category": told["category"],
            "retryable": False,
            "action": told["action"],
            "reason": "for a test",
            "bad_input_files": list(told["bad_files"]),
            "limit": told["limit"],
        },
        "log_tail": f"the last lines of {node}",
    }
    (directory / f"{node}.post.0.json").write_text(json.dumps(record))


@pytest.fixture
def sites(db: None) -> None:
    for name in (CERN, DESY, PURDUE):
        make_site(name)


@pytest.fixture
def planned(sites: None) -> Callable[..., Round]:
    """A request whose first round is planned: one file per job, two jobs per group unless said otherwise."""

    def plan(places: Sequence[Sequence[str]], **values: Any) -> Round:
        values = {"splitting_params": {"files_per_job": 1}, "jobs_per_group": 2} | values
        workflow = make_workflow(**values)
        for number, locations in enumerate(places):
            lfn = f"/store/data/{workflow.request_name}/{number:03d}.root"
            make_file(workflow, lfn=lfn, locations=list(locations), lumis=[[1, number + 1, number + 1]])
        request = make_request(workflow=workflow, status=RequestStatus.ACTIVE)
        pool = usable_sites(workflow=workflow, now=timezone.now())
        production.plan_round(workflow=workflow, sites=pool, priority=0)
        return Round(request)

    return plan
