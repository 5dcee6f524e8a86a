"""An in-memory schedd for tests, with the port and contract tests of the real one (tests/contract).

It keeps the ads of DAGMans and jobs and writes no files. Nothing changes by itself: the test starts groups
and jobs, finishes DAGs and stops the schedd from answering.
"""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from condor.analysis import MatchAnalysis
from condor.dagtext import CONFIG
from condor.fake_queue import DAGMAN, JOB, Ad, AdQueue
from condor.jobads import build_ad, build_running_job, build_stuck_job, gather_ads, group_of, one_line
from condor.layout import check_int
from condor.schedd import (
    CLOCK_SKEW_SEC,
    MAX_GROUPS,
    build_landing_lists,
    check_batch_name,
    check_cluster_id,
    check_priority,
    check_seconds,
)
from condor.submitfile import boost
from condor.types import DagmanAd, JobStatus, Presence, RunningJob, ScheddLimits, StuckJob
from wms2_project.errors import ScheddUnreachable, ServiceRejected

if TYPE_CHECKING:
    from condor.ports import ScheddPort

_GROUP = re.compile(r"^SUBDAG EXTERNAL ", re.MULTILINE)


class FakeSchedd:
    """A schedd whose queue, history, limits and failures a test controls."""

    def __init__(self, name: str = "fake@pool", *, now: Callable[[], float] = time.time) -> None:
        self._name = name
        self._now = now
        self._queue = AdQueue()
        self._history: list[Ad] = []
        self._last_cluster = 0
        self._silent: Collection[str] | None = ()  # operations without an answer; None: all
        self._lose_submit_answer = False
        self.calls: list[tuple[str, Mapping[str, Any]]] = []
        self.denied: set[str] = set()  # batches whose removal, hold or release the schedd denies
        self.per_owner: int | None = 200
        self.total: int | None = 500
        self.other_dagmans = 0  # further running DAGMans

    # Controls for tests.

    def silence(self, *operations: str) -> None:
        """Stop answering these operations of the port; without arguments, all of them."""
        self._silent = operations or None

    def answer(self) -> None:
        """Answer every operation again."""
        self._silent = ()

    def lose_submit_answer(self) -> None:
        """Queue the next DAG that is submitted, but raise ScheddUnreachable."""
        self._lose_submit_answer = True

    def called(self, operation: str) -> list[Mapping[str, Any]]:
        """Return the arguments of every call of this operation, oldest first."""
        return [arguments for name, arguments in self.calls if name == operation]

    def add_dag(self, batch_name: str, *, directory: str | Path = "", groups: int = 1, **ad: Any) -> int:
        """Put the outer DAGMan of a DAG into the queue, without files; return its cluster id."""
        counts = dict.fromkeys(("Done", "Failed", "Futile", "Queued"), 0) | {"Total": groups}
        return self._add(
            batch_name,
            {"JobUniverse": DAGMAN, "Iwd": str(directory)}
            | {f"DAG_Nodes{name}": count for name, count in counts.items()}
            | ad,
        )

    def start_group(self, batch_name: str, group: str, **ad: Any) -> int:
        """Put the DAGMan of a group into the queue; return its cluster id."""
        return int(self._put_group(batch_name, group, **ad)["ClusterId"])

    def start_job(
        self,
        batch_name: str,
        group: str,
        node: str,
        *,
        status: JobStatus = JobStatus.RUNNING,
        role: str = "processing",
        site: str = "",
        since: float | None = None,
        **ad: Any,
    ) -> int:
        """Put a job of a group into the queue, in this status since then; return its cluster id."""
        directory = f"{self._outer(batch_name)['Iwd']}/{group}"
        job = {
            "JobUniverse": JOB,
            "JobStatus": int(status),
            "Iwd": directory if role == "landing" else f"{directory}/reports",
            "DAGNodeName": node,
            "CMS_NodeRole": role,
            "DESIRED_Sites": site,
        }
        if since is not None:
            job |= {"EnteredCurrentStatus": since, "JobCurrentStartExecutingDate": since}
        return self._add(batch_name, job | ad)

    def finish_dag(self, batch_name: str, *, exit_code: int | None = 0) -> None:
        """End the DAG with this exit code, or by a signal (None), and move its ad to history."""
        outer = self._outer(batch_name)
        if exit_code == 0:
            outer["DAG_NodesDone"] = outer["DAG_NodesTotal"]
        ending = {"ExitSignal": 9} if exit_code is None else {"ExitCode": exit_code}
        self._leave(self._batch(batch_name), JobStatus.COMPLETED, **ending)

    def clear_jobs(self) -> None:
        """Remove every job from the queue, but no DAGMan."""
        self._queue.remove(self._all(JobUniverse=JOB))

    def jobs(self, batch_name: str) -> list[Ad]:
        """Return the ads of the batch in the queue, DAGMans included."""
        return [dict(ad) for ad in self._batch(batch_name)]

    def forget_dag(self, batch_name: str) -> None:
        """Drop the DAG from queue and history, like a schedd that lost its disk."""
        self._queue.remove(self._batch(batch_name))
        self._history = [ad for ad in self._history if ad["JobBatchName"] != batch_name]

    # The port.

    @property
    def name(self) -> str:
        return self._name

    def submit_dag(
        self, dag_file: Path, batch_name: str, *, priority: int = 0, max_groups: int | None = None
    ) -> int:
        check_batch_name(batch_name)
        check_priority(priority)
        self._asked(
            "submit_dag", dag_file=dag_file, batch_name=batch_name, priority=priority, max_groups=max_groups
        )
        missing = [path for path in (dag_file, dag_file.with_name(CONFIG)) if not path.exists()]
        if missing:
            queued = gather_ads(self._batch(batch_name)).get(batch_name)
            if queued:
                return queued.cluster_id
            raise ServiceRejected(
                f"the schedd did not take {dag_file}: {missing[0]} does not exist",
                cure="Fix the named error, then release the request",
            )
        groups = len(_GROUP.findall(dag_file.read_text()))
        cluster_id = self.add_dag(batch_name, directory=dag_file.parent, groups=groups, JobPrio=priority)
        if max_groups is not None:
            self._outer(batch_name)[MAX_GROUPS] = max_groups
        if self._lose_submit_answer:
            self._lose_submit_answer = False
            raise ScheddUnreachable("submit_dag: the answer was lost", cure="Retried automatically")
        return cluster_id

    def find_dag(self, batch_name: str, *, not_before: float = 0.0) -> tuple[Presence, DagmanAd | None]:
        check_batch_name(batch_name)
        try:
            self._asked("find_dag", batch_name=batch_name, not_before=not_before)
        except ScheddUnreachable:
            return Presence.UNKNOWN, None
        found = gather_ads(self._batch(batch_name)).get(batch_name) or self._past(batch_name, not_before)
        return (Presence.FOUND, found) if found else (Presence.ABSENT, None)

    def query_dags(self, batch_names: Iterable[str] | None = None) -> Mapping[str, DagmanAd]:
        names = None if batch_names is None else _checked(batch_names)
        if names is not None and not names:
            return {}
        self._asked("query_dags", batch_names=names)
        return gather_ads(
            ad for ad in self._all(JobUniverse=DAGMAN) if names is None or ad["JobBatchName"] in names
        )

    def stuck_jobs(self, batch_names: Iterable[str], *, idle_sec: int) -> list[StuckJob]:
        names = _checked(batch_names)
        if not names:
            return []
        check_seconds("idle_sec", idle_sec)
        self._asked("stuck_jobs", batch_names=names, idle_sec=idle_sec)
        before = self._now() - idle_sec
        return [
            build_stuck_job(ad)
            for ad in self._all(JobUniverse=JOB)
            if ad["JobBatchName"] in names
            and (
                ad["JobStatus"] == JobStatus.HELD
                or (ad["JobStatus"] == JobStatus.IDLE and ad["EnteredCurrentStatus"] < before)
            )
        ]

    def running_jobs(self, batch_names: Iterable[str], *, longer_than_sec: int) -> list[RunningJob]:
        names = _checked(batch_names)
        if not names:
            return []
        check_seconds("longer_than_sec", longer_than_sec)
        self._asked("running_jobs", batch_names=names, longer_than_sec=longer_than_sec)
        since = self._now() - longer_than_sec
        return [
            build_running_job(ad)
            for ad in self._all(JobUniverse=JOB, JobStatus=JobStatus.RUNNING, CMS_NodeRole="processing")
            if ad["JobBatchName"] in names and ad["JobCurrentStartExecutingDate"] <= since
        ]

    def remove_jobs(self, batch_name: str, cluster_ids: Collection[int], *, reason: str) -> int:
        wanted = {check_cluster_id(one) for one in cluster_ids}
        if not wanted:
            return 0
        self._acted("remove_jobs", batch_name, cluster_ids=sorted(wanted), reason=one_line(reason))
        running = self._all(JobBatchName=batch_name, JobUniverse=JOB, JobStatus=JobStatus.RUNNING)
        return self._leave([ad for ad in running if ad["ClusterId"] in wanted], JobStatus.REMOVED)

    def working_groups(self, batch_names: Iterable[str]) -> set[tuple[str, str]]:
        names = _checked(batch_names)
        if not names:
            return set()
        self._asked("working_groups", batch_names=names)
        return {
            (ad["JobBatchName"], group_of(ad))
            for ad in self._all(JobUniverse=JOB)
            if ad["JobBatchName"] in names and ad["JobStatus"] != JobStatus.HELD
        }

    def finished_dag(self, batch_name: str, cluster_id: int, *, not_before: float = 0.0) -> DagmanAd | None:
        check_batch_name(batch_name)
        check_cluster_id(cluster_id)
        self._asked("finished_dag", batch_name=batch_name, cluster_id=cluster_id, not_before=not_before)
        return self._past(batch_name, not_before, cluster_id)

    def remove_dag(self, batch_name: str, *, reason: str, resumable: bool = True) -> int:
        self._acted("remove_dag", batch_name, reason=one_line(reason), resumable=resumable)
        dagmans = self._all(JobBatchName=batch_name, JobUniverse=DAGMAN)
        self._leave(self._batch(batch_name), JobStatus.REMOVED, RemoveReason=one_line(reason))
        return len(dagmans)

    def clear_batch(self, batch_name: str, *, reason: str) -> int:
        self._acted("clear_batch", batch_name, reason=one_line(reason))
        return self._leave(self._batch(batch_name), JobStatus.REMOVED, RemoveReason=one_line(reason))

    def hold_dag(self, batch_name: str, *, reason: str) -> int:
        self._acted("hold_dag", batch_name, reason=one_line(reason))
        dagmans = self._all(JobBatchName=batch_name, JobUniverse=DAGMAN)
        running = [ad for ad in dagmans if ad["JobStatus"] != JobStatus.HELD]
        return self._move(running, JobStatus.HELD, HoldReason=one_line(reason), HoldReasonCode=1)

    def release_dag(self, batch_name: str, *, reason: str) -> int:
        self._acted("release_dag", batch_name, reason=one_line(reason))
        held = self._all(JobBatchName=batch_name, JobUniverse=DAGMAN, JobStatus=JobStatus.HELD)
        return self._move(held, JobStatus.RUNNING, HoldReason="", HoldReasonCode=0)

    def set_priority(self, batch_name: str, priority: int) -> int:
        check_priority(priority)
        check_batch_name(batch_name)
        self._asked("set_priority", batch_name=batch_name, priority=priority)
        for ad in self._batch(batch_name):
            ad["JobPrio"] = priority + boost(ad.get("CMS_NodeRole", ""))
        return len(self._batch(batch_name))

    def place_landings(self, batch_name: str, sites: Mapping[str, Collection[str]]) -> int:
        lists = build_landing_lists(sites)
        self._asked("place_landings", batch_name=check_batch_name(batch_name), sites=sites)
        changed = 0
        idle = self._all(JobBatchName=batch_name, JobStatus=JobStatus.IDLE)
        for ad in (one for one in idle if one.get("CMS_NodeRole") in ("landing", "runner")):
            wanted = lists.get(group_of(ad), ad["DESIRED_Sites"])
            changed += wanted != ad["DESIRED_Sites"]
            ad["DESIRED_Sites"] = wanted
        return changed

    def idle_cores(self) -> Mapping[str, int]:
        self._asked("idle_cores")
        cores: Counter[str] = Counter()
        for ad in self._all(JobUniverse=JOB, JobStatus=int(JobStatus.IDLE)):
            for site in str(ad.get("DESIRED_Sites", "")).split(","):
                cores[site] += int(ad.get("RequestCpus", 1))
        return cores

    def limit_groups(self, batch_names: Iterable[str], max_groups: int) -> int:
        check_int("max_groups", max_groups, 1, 1_000_000)
        names = [check_batch_name(name) for name in batch_names]
        self._asked("limit_groups", batch_names=names, max_groups=max_groups)
        outer = [ad for name in names for ad in self._batch(name) if _is_outer(ad)]
        others = [ad for ad in outer if ad.get(MAX_GROUPS) != max_groups]
        for ad in others:
            ad[MAX_GROUPS] = max_groups
        return len(others)

    def ping(self) -> bool:
        try:
            self._asked("ping")
        except ScheddUnreachable:
            return False
        return True

    def explain_idle(self, batch_name: str) -> MatchAnalysis | None:
        """Name the first idle job; there are no slots to compare it with."""
        check_batch_name(batch_name)
        self._asked("explain_idle", batch_name=batch_name)
        idle = self._all(JobBatchName=batch_name, JobUniverse=JOB, JobStatus=JobStatus.IDLE)
        if not idle:
            return None
        return MatchAnalysis(f"{idle[0]['ClusterId']}.0", {"slots": 0, "able": 0}, (), "")

    def limits(self) -> ScheddLimits:
        self._asked("limits")
        running = len(self._all(JobUniverse=DAGMAN, JobStatus=JobStatus.RUNNING))
        return ScheddLimits(self.per_owner, self.total, running + self.other_dagmans)

    # Storage of ads.

    def _asked(self, operation: str, **arguments: Any) -> None:
        self.calls.append((operation, arguments))
        if self._silent is None or operation in self._silent:
            raise ScheddUnreachable(f"{operation}: {self.name} does not answer", cure="Retried automatically")

    def _acted(self, operation: str, batch_name: str, **arguments: Any) -> None:
        check_batch_name(batch_name)
        self._asked(operation, batch_name=batch_name, **arguments)
        if batch_name in self.denied:
            raise ServiceRejected(
                f"{operation}: the schedd denies permission", cure="Run WMS2 as the DAG's owner"
            )

    def _add(self, batch_name: str, ad: Ad) -> int:
        return int(self._put(batch_name, ad)["ClusterId"])

    def _put_group(self, batch_name: str, group: str, **ad: Any) -> Ad:
        outer = self._outer(batch_name)
        inner = {"JobUniverse": DAGMAN, "DAGManJobId": outer["ClusterId"], "Iwd": f"{outer['Iwd']}/{group}"}
        return self._put(batch_name, inner | ad)

    def _put(self, batch_name: str, ad: Ad) -> Ad:
        now = self._now()
        known: Ad = {"JobBatchName": batch_name, "JobStatus": int(JobStatus.RUNNING), "JobPrio": 0}
        known |= {"QDate": now, "EnteredCurrentStatus": now, "JobCurrentStartExecutingDate": now}
        known |= {"ClusterId": self._last_cluster + 1} | ad
        self._last_cluster = max(self._last_cluster, known["ClusterId"])
        self._queue.add(known)
        return known

    def _all(self, **wanted: Any) -> list[Ad]:
        return self._queue.all(**wanted)

    def _batch(self, batch_name: str) -> list[Ad]:
        return self._all(JobBatchName=batch_name)

    def _outer(self, batch_name: str) -> Ad:
        return next(ad for ad in self._all(JobBatchName=batch_name, JobUniverse=DAGMAN) if _is_outer(ad))

    def _move(self, ads: list[Ad], status: JobStatus, **changes: Any) -> int:
        for ad in ads:
            ad |= {"JobStatus": int(status), "EnteredCurrentStatus": self._now()} | changes
        return len(ads)

    def _leave(self, ads: list[Ad], status: JobStatus, **changes: Any) -> int:
        self._move(ads, status, **changes)
        self._history += [ad for ad in ads if _is_outer(ad)]
        self._queue.remove(ads)
        return len(ads)

    def _past(self, batch_name: str, not_before: float, cluster_id: int = 0) -> DagmanAd | None:
        """Search history like the real schedd: back to the first ad that completed before `not_before`."""
        for ad in reversed(self._history):
            completed = ad["JobStatus"] == JobStatus.COMPLETED
            if not_before > 0 and completed and ad["EnteredCurrentStatus"] < not_before - CLOCK_SKEW_SEC:
                return None
            if ad["JobBatchName"] == batch_name and cluster_id in (0, ad["ClusterId"]):
                return build_ad(ad, [], finished=True)
        return None


class FakePool(dict[str, FakeSchedd]):
    """In-memory schedds by name, created on first use."""

    def __missing__(self, name: str) -> FakeSchedd:
        self[name] = FakeSchedd(name or "fake@pool")
        return self[name]


def _is_outer(ad: Ad) -> bool:
    return ad["JobUniverse"] == DAGMAN and "DAGManJobId" not in ad


def _checked(batch_names: Iterable[str]) -> list[str]:
    return [check_batch_name(name) for name in batch_names]


if TYPE_CHECKING:
    _keeps_the_port: ScheddPort = FakeSchedd()
