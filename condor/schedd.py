"""A schedd, accessed through HTCondor's bindings; every call is bounded in time.

No answer raises ScheddUnreachable and never means "absent". A refusal raises ServiceRejected.
"""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Any

from condor.analysis import MatchAnalysis, parse_analysis
from condor.bounded import BindingsError, BoundedCalls
from condor.jobads import build_ad, build_running_job, build_stuck_job, gather_ads, group_of, one_line
from condor.layout import check_int, refuse
from condor.submitfile import Role, boost
from condor.types import NO_SITE, DagmanAd, Presence, RunningJob, ScheddLimits, StuckJob
from wms2_project.errors import ScheddUnreachable, ServiceRejected, TransientError
from wms2_project.grammar import Name, check, matches

BATCH_PREFIX = "wms2-"
_DAGMAN = "JobUniverse == 7"
_OUTER = f"{_DAGMAN} && DAGManJobId is undefined"
MAX_GROUPS = "DAGMan_MaxJobs"  # DAGMan reads it at each update of its ad
_ATTRIBUTES = [
    "JobBatchName", "ClusterId", "JobStatus", "DAGManJobId", "Iwd", "QDate", "EnteredCurrentStatus",
    "ExitCode", "ExitSignal", "HoldReason", "HoldReasonCode", "RemoveReason",
    "DAG_AdUpdateTime", "DAG_NodesTotal", "DAG_NodesDone", "DAG_NodesFailed", "DAG_NodesFutile",
    "DAG_NodesQueued", "DAG_JobsIdle", "DAG_JobsRunning", "DAG_JobsHeld",
]  # fmt: skip
_STUCK_ATTRIBUTES = [
    "JobBatchName", "DAGNodeName", "Iwd", "HoldReason", "HoldReasonCode", "EnteredCurrentStatus",
]  # fmt: skip
_MAX_STUCK = 1000
_RUNNING_ATTRIBUTES = [
    "JobBatchName", "DAGNodeName", "Iwd", "ClusterId", "DESIRED_Sites", "JobCurrentStartExecutingDate",
    "RemoteUserCpu", "RemoteSysCpu",
]  # fmt: skip
_MAX_RUNNING = 20_000
_MAX_IDLE = 100_000
_LIMIT_ATTRIBUTES = ["Name", "MaxRunningSchedulerJobsPerOwner", "StartSchedulerUniverse"]
_TOTAL_LIMIT = re.compile(r"TotalSchedulerJobsRunning\s*<\s*(\d+)", re.ASCII)
_WAKE_POLL_SEC = 0.5
CLOCK_SKEW_SEC = 3600  # largest difference between the schedd's clock and this host's
_HOLD_ROUNDS = 5
_CURE = "Retried automatically. Check that the schedd runs and that CONDOR_CONFIG names its pool"


class Schedd:
    """The schedd of the configured pool, or the named one."""

    def __init__(
        self,
        name: str = "",
        *,
        timeout_sec: float = 15.0,
        submit_timeout_sec: float = 60.0,
        wake_timeout_sec: float = 45.0,
    ) -> None:
        if name and not re.fullmatch(r"[A-Za-z0-9_.@-]{1,200}", name, re.ASCII):
            raise refuse("name", f"{name!r:.80} is not the name of a schedd")
        self._name = name
        self._known_name = name
        self._timeout_sec = timeout_sec
        self._submit_timeout_sec = submit_timeout_sec
        self._wake_timeout_sec = wake_timeout_sec
        self._calls = BoundedCalls()

    @property
    def name(self) -> str:
        if not self._known_name:
            self._known_name = str(self._call("describe", attributes=["Name"]).get("Name", ""))
        return self._known_name

    def submit_dag(
        self, dag_file: Path, batch_name: str, *, priority: int = 0, max_groups: int | None = None
    ) -> int:
        check_batch_name(batch_name)
        check_priority(priority)
        try:
            return int(
                self._calls.call(
                    "submit_dag",
                    timeout_sec=self._submit_timeout_sec,
                    schedd=self._name,
                    directory=str(dag_file.parent),
                    dag_file=dag_file.name,
                    batch_name=batch_name,
                    priority=priority,
                    max_groups=max_groups or 0,
                )
            )
        except BindingsError as error:
            # Despite the error the DAG may be queued: check.
            queued = self.query_dags([batch_name]).get(batch_name)
            if queued:
                return queued.cluster_id
            raise ServiceRejected(
                f"the schedd did not take {dag_file}: {error}",
                cure="Fix the named error, then release the request",
            ) from error

    def find_dag(self, batch_name: str, *, not_before: float = 0.0) -> tuple[Presence, DagmanAd | None]:
        try:
            found = self.query_dags([batch_name]).get(batch_name)
            if found is None:
                found = self._from_history(batch_name, "", not_before)
        except ScheddUnreachable:
            return Presence.UNKNOWN, None
        return (Presence.FOUND, found) if found else (Presence.ABSENT, None)

    def query_dags(self, batch_names: Iterable[str] | None = None) -> Mapping[str, DagmanAd]:
        if batch_names is None:
            ours = f'regexp("^{BATCH_PREFIX}", JobBatchName)'
        else:
            ours = _batches(batch_names)
            if not ours:
                return {}
        return gather_ads(self._query(f"{_DAGMAN} && {ours}"))

    def stuck_jobs(self, batch_names: Iterable[str], *, idle_sec: int) -> list[StuckJob]:
        ours = _batches(batch_names)
        if not ours:
            return []
        limit = check_seconds("idle_sec", idle_sec)
        idle = f"(JobStatus == 1 && time() - EnteredCurrentStatus > {limit})"
        stuck = f"JobUniverse == 5 && (JobStatus == 5 || {idle}) && {ours}"
        return [build_stuck_job(ad) for ad in self._query(stuck, _STUCK_ATTRIBUTES, limit=_MAX_STUCK)]

    def running_jobs(self, batch_names: Iterable[str], *, longer_than_sec: int) -> list[RunningJob]:
        """Schedds answer in order of submission: beyond the limit, the youngest jobs are left out."""
        ours = _batches(batch_names)
        if not ours:
            return []
        limit = check_seconds("longer_than_sec", longer_than_sec)
        old = f"time() - JobCurrentStartExecutingDate >= {limit}"
        running = f'JobUniverse == 5 && JobStatus == 2 && CMS_NodeRole == "processing" && {old} && {ours}'
        return [build_running_job(ad) for ad in self._query(running, _RUNNING_ATTRIBUTES, limit=_MAX_RUNNING)]

    def remove_jobs(self, batch_name: str, cluster_ids: Collection[int], *, reason: str) -> int:
        named = [f"ClusterId == {check_cluster_id(one)}" for one in cluster_ids]
        if not named:
            return 0
        running = f"{_batch(batch_name)} && JobUniverse == 5 && JobStatus == 2"
        return self._act("Remove", f"{running} && ({' || '.join(named)})", reason)

    def working_groups(self, batch_names: Iterable[str]) -> set[tuple[str, str]]:
        ours = _batches(batch_names)
        if not ours:
            return set()
        ads = self._query(f"JobUniverse == 5 && JobStatus != 5 && {ours}", ["JobBatchName", "Iwd"])
        return {(ad["JobBatchName"], group_of(ad)) for ad in ads}

    def finished_dag(self, batch_name: str, cluster_id: int, *, not_before: float = 0.0) -> DagmanAd | None:
        check_cluster_id(cluster_id)
        return self._from_history(batch_name, f" && ClusterId == {cluster_id}", not_before)

    def remove_dag(self, batch_name: str, *, reason: str, resumable: bool = True) -> int:
        """Release held DAGMans first: only a running one writes the rescue file that a resume needs.

        If nothing is to be resumed they stay held, and their jobs, which they would have removed, are
        removed here.
        """
        dagmans = f"{_batch(batch_name)} && {_DAGMAN}"
        if resumable and self._query(f"{dagmans} && JobStatus == 5", ["ClusterId"], limit=1):
            self._wake(dagmans, reason)
        removed = self._act("Remove", dagmans, reason)
        if not resumable:
            self._act("Remove", _batch(batch_name), reason)
        return removed

    def clear_batch(self, batch_name: str, *, reason: str) -> int:
        """Query before acting: usually nothing is left."""
        left = len(self._query(_batch(batch_name), ["ClusterId"]))
        if left:
            self._act("Remove", _batch(batch_name), reason)
        return left

    def hold_dag(self, batch_name: str, *, reason: str) -> int:
        """Repeat until none runs: the outer DAGMan may be submitting another group meanwhile."""
        running = f"{_batch(batch_name)} && {_DAGMAN} && JobStatus != 5 && JobStatus != 3"
        held = 0
        for _ in range(_HOLD_ROUNDS):
            held += self._act("Hold", running, reason)
            if not self._query(running, ["ClusterId"], limit=1):
                break
        return held

    def release_dag(self, batch_name: str, *, reason: str) -> int:
        return self._act("Release", f"{_batch(batch_name)} && {_DAGMAN} && JobStatus == 5", reason)

    def set_priority(self, batch_name: str, priority: int) -> int:
        check_priority(priority)
        constraint = _batch(batch_name)
        if not self._query(constraint, ["ClusterId"], limit=1):
            return 0
        changed = self._call("edit", constraint=constraint, attribute="JobPrio", value=str(priority))
        for role in Role:
            own = f'{constraint} && CMS_NodeRole == "{role}"'
            if boost(role) and self._query(own, ["ClusterId"], limit=1):
                value = str(priority + boost(role))
                self._call("edit", constraint=own, attribute="JobPrio", value=value)
        return int(changed)

    def limit_groups(self, batch_names: Iterable[str], max_groups: int) -> int:
        check_int("max_groups", max_groups, 1, 1_000_000)
        ours = _batches(batch_names)
        other = f"{_OUTER} && {ours} && {MAX_GROUPS} =!= {max_groups}"
        if not ours or not self._query(other, ["ClusterId"], limit=1):
            return 0
        return int(self._call("edit", constraint=other, attribute=MAX_GROUPS, value=str(max_groups)))

    def place_landings(self, batch_name: str, sites: Mapping[str, Collection[str]]) -> int:
        lists = build_landing_lists(sites)
        role = '(CMS_NodeRole == "landing" || CMS_NodeRole == "runner")'  # runners land by themselves
        waiting = f"{_batch(batch_name)} && {role} && JobStatus == 1"
        by_list: dict[str, list[int]] = {}
        for ad in self._query(waiting, ["ClusterId", "Iwd", "DESIRED_Sites"]):
            wanted = lists.get(group_of(ad))
            if wanted is not None and wanted != ad.get("DESIRED_Sites"):
                by_list.setdefault(wanted, []).append(int(ad["ClusterId"]))
        changed = 0
        for wanted, clusters in sorted(by_list.items()):
            among = f"{waiting} && member(ClusterId, {{{', '.join(map(str, sorted(clusters)))}}})"
            changed += int(
                self._call("edit", constraint=among, attribute="DESIRED_Sites", value=f'"{wanted}"')
            )
        return changed

    def idle_cores(self) -> Mapping[str, int]:
        """Beyond the limit, the youngest jobs are left out."""
        idle = f'JobUniverse == 5 && JobStatus == 1 && regexp("^{BATCH_PREFIX}", JobBatchName)'
        cores: Counter[str] = Counter()
        for ad in self._query(idle, ["DESIRED_Sites", "RequestCpus"], limit=_MAX_IDLE):
            for site in str(ad.get("DESIRED_Sites", "")).split(","):
                cores[site] += int(ad.get("RequestCpus", 1))
        return cores

    def ping(self) -> bool:
        try:
            self._query("false", ["ClusterId"], limit=1)
        except ScheddUnreachable:
            return False
        return True

    def explain_idle(self, batch_name: str) -> MatchAnalysis | None:
        idle = f"{_batch(batch_name)} && JobUniverse != 7 && JobStatus == 1"
        within_sec = max(self._timeout_sec - 2, 1.0)  # condor_q must end before the call times out
        return parse_analysis(self._call("analyze", constraint=idle, within_sec=within_sec))

    def limits(self) -> ScheddLimits:
        ad = self._call("describe", attributes=_LIMIT_ATTRIBUTES)
        total = _TOTAL_LIMIT.search(str(ad.get("StartSchedulerUniverse", "")))
        per_owner = ad.get("MaxRunningSchedulerJobsPerOwner")
        running = self._query(f"{_DAGMAN} && JobStatus == 2", ["ClusterId"])
        return ScheddLimits(
            scheduler_jobs_per_owner=int(per_owner) if per_owner else None,
            scheduler_jobs_total=int(total[1]) if total else None,
            scheduler_jobs_running=len(running),
        )

    def close(self) -> None:
        self._calls.close()

    def _wake(self, dagmans: str, reason: str) -> None:
        """Release, and wait until every DAGMan has updated its ad since."""
        released_at = max((int(ad["ServerTime"]) for ad in self._query(dagmans, ["ServerTime"])), default=0)
        self._act("Release", f"{dagmans} && JobStatus == 5", reason)
        awake = f"JobStatus == 2 && DAG_AdUpdateTime isnt undefined && DAG_AdUpdateTime > {released_at}"
        deadline = time.monotonic() + self._wake_timeout_sec
        while self._query(f"{dagmans} && !({awake})", ["ClusterId"], limit=1):
            if time.monotonic() > deadline:
                raise TransientError(
                    f"a held DAGMan did not start within {self._wake_timeout_sec:g} s of its release",
                    cure="Retried automatically. If it persists, check the schedd's limit of running DAGMans",
                )
            time.sleep(_WAKE_POLL_SEC)

    def _from_history(self, batch_name: str, further: str, not_before: float) -> DagmanAd | None:
        """Search from the newest ad back to the first one that ended before `not_before`.

        Ads are appended when a job leaves the queue. Removed and spooled jobs may leave long after their
        last change of status, so they do not end the search.
        """
        ended_before = f"EnteredCurrentStatus < {int(not_before - CLOCK_SKEW_SEC)}"
        since = f"JobStatus == 4 && StageInFinish is undefined && {ended_before}" if not_before > 0 else None
        ads = self._call(
            "history",
            constraint=f"{_batch(batch_name)} && {_OUTER}{further}",
            attributes=_ATTRIBUTES,
            limit=1,
            since=since,
        )
        return build_ad(ads[0], [], finished=True) if ads else None

    def _query(
        self, constraint: str, attributes: list[str] | None = None, *, limit: int = -1
    ) -> list[dict[str, Any]]:
        ads = self._call("query", constraint=constraint, attributes=attributes or _ATTRIBUTES, limit=limit)
        return list(ads)

    def _act(self, action: str, constraint: str, reason: str) -> int:
        totals = self._call("act", action=action, constraint=constraint, reason=one_line(reason))
        if totals.get("TotalPermissionDenied"):
            raise ServiceRejected(
                f"{action}: the schedd denies permission", cure="Run WMS2 as the DAG's owner"
            )
        return int(totals.get("TotalSuccess", 0))

    def _call(self, operation: str, **arguments: Any) -> Any:
        try:
            return self._calls.call(operation, timeout_sec=self._timeout_sec, schedd=self._name, **arguments)
        except BindingsError as error:
            raise ScheddUnreachable(f"{operation}: {error}", cure=_CURE) from error


def find_job_owner(schedd: str, *, timeout_sec: float) -> str:
    """Return the account that the schedd, '' for the pool's own, maps WMS2 to. Raises ScheddUnreachable."""
    calls = BoundedCalls()
    try:
        return str(calls.call("identify", timeout_sec=timeout_sec, schedd=schedd)).partition("@")[0]
    except BindingsError as error:
        raise ScheddUnreachable(
            f"identify: {error}", cure="Check that the schedd runs and that CONDOR_CONFIG names its pool"
        ) from error
    finally:
        calls.close()


def check_batch_name(value: str) -> str:
    """Return the batch name if it is one of WMS2: the prefix and one word."""
    if not matches(Name.WORD, value) or not value.startswith(BATCH_PREFIX):
        raise refuse("batch_name", f"{value!r:.80} is not a batch name such as {BATCH_PREFIX}<id>")
    return value


def check_priority(value: int) -> int:
    """Return the JobPrio if it is within the bounds that WMS2 uses."""
    return check_int("priority", value, -1_000_000_000, 1_000_000_000)


def check_cluster_id(value: int) -> int:
    """Return the cluster id if HTCondor can have assigned it."""
    return check_int("cluster_id", value, 1, 2**31 - 1)


def check_seconds(field_name: str, value: int) -> int:
    return check_int(field_name, value, 0, 10**9)


def build_landing_lists(sites: Mapping[str, Collection[str]]) -> dict[str, str]:
    """Return DESIRED_Sites of each group's landing; NO_SITE for a group without a site."""
    return {
        group: ",".join(check(Name.SITE, site, field="sites") for site in sorted(found)) or NO_SITE
        for group, found in sites.items()
    }


def _batches(batch_names: Iterable[str]) -> str:
    """Return the constraint that selects these batches; empty for none."""
    names = [check_batch_name(name) for name in batch_names]
    return f'stringListMember(JobBatchName, "{",".join(names)}")' if names else ""


def _batch(batch_name: str) -> str:
    return f'JobBatchName == "{check_batch_name(batch_name)}"'
