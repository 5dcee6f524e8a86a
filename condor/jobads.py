"""Values built from the ads of DAGMans and of their jobs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from condor.layout import GROUP_NAME
from condor.types import DagmanAd, GroupNodes, JobStatus, RunningJob, StuckJob

_GROUP_COUNTS = ("DAG_NodesDone", "DAG_NodesFailed", "DAG_JobsRunning", "DAG_JobsIdle", "DAG_JobsHeld")


def gather_ads(ads: Iterable[Mapping[str, Any]]) -> dict[str, DagmanAd]:
    """Return outer DAGMans by batch name, each with the job counts of its inner DAGMans."""
    outer: dict[str, Mapping[str, Any]] = {}
    inner: dict[str, list[Mapping[str, Any]]] = {}
    for ad in ads:
        name = ad["JobBatchName"]
        if "DAGManJobId" in ad:
            inner.setdefault(name, []).append(ad)
        elif name not in outer or ad["ClusterId"] < outer[name]["ClusterId"]:
            outer[name] = ad
    return {name: build_ad(ad, inner.get(name, []), finished=False) for name, ad in outer.items()}


def build_ad(ad: Mapping[str, Any], inner: list[Mapping[str, Any]], *, finished: bool) -> DagmanAd:
    def number(key: str) -> int:
        return int(ad.get(key, 0))

    def total(key: str) -> int:
        return sum(int(one.get(key, 0)) for one in inner)

    def moment(key: str) -> datetime | None:
        return datetime.fromtimestamp(ad[key], UTC) if ad.get(key) else None

    return DagmanAd(
        batch_name=ad["JobBatchName"],
        cluster_id=ad["ClusterId"],
        job_status=JobStatus(ad["JobStatus"]),
        finished=finished,
        exit_code=ad.get("ExitCode"),
        exit_signal=ad.get("ExitSignal"),
        hold_reason=ad.get("HoldReason", ""),
        hold_code=number("HoldReasonCode"),
        remove_reason=ad.get("RemoveReason", ""),
        directory=ad.get("Iwd", ""),
        nodes_total=number("DAG_NodesTotal"),
        nodes_done=number("DAG_NodesDone"),
        nodes_failed=number("DAG_NodesFailed"),
        nodes_futile=number("DAG_NodesFutile"),
        nodes_queued=number("DAG_NodesQueued"),
        jobs_idle=total("DAG_JobsIdle"),
        jobs_running=total("DAG_JobsRunning"),
        jobs_held=total("DAG_JobsHeld"),
        groups_running=sum(one["JobStatus"] == JobStatus.RUNNING for one in inner),
        groups_held=sum(one["JobStatus"] == JobStatus.HELD for one in inner),
        groups={  # a group that has just started has no counts yet
            group_of(one): GroupNodes(*(int(one.get(key, 0)) for key in _GROUP_COUNTS))
            for one in inner
            if "DAG_NodesDone" in one and group_of(one)
        },
        submitted_at=moment("QDate"),
        entered_status_at=moment("EnteredCurrentStatus"),
        updated_at=moment("DAG_AdUpdateTime"),
    )


def build_stuck_job(ad: Mapping[str, Any]) -> StuckJob:
    return StuckJob(
        batch_name=ad["JobBatchName"],
        group=group_of(ad),
        node=ad.get("DAGNodeName", ""),
        hold_code=int(ad.get("HoldReasonCode", 0)),
        reason=one_line(ad["HoldReason"]) if ad.get("HoldReason") else "",
        since=datetime.fromtimestamp(ad.get("EnteredCurrentStatus", 0), UTC),
    )


def build_running_job(ad: Mapping[str, Any]) -> RunningJob:
    """Build from the job's ad; CPU time is 0 until HTCondor reports it."""
    return RunningJob(
        batch_name=ad["JobBatchName"],
        group=group_of(ad),
        node=ad.get("DAGNodeName", ""),
        cluster_id=int(ad["ClusterId"]),
        site=str(ad.get("DESIRED_Sites", "")),
        started_at=datetime.fromtimestamp(ad["JobCurrentStartExecutingDate"], UTC),
        cpu_sec=float(ad.get("RemoteUserCpu", 0)) + float(ad.get("RemoteSysCpu", 0)),
    )


def group_of(ad: Mapping[str, Any]) -> str:
    """Return the group of a job from its directory: `<group>/reports`, or the group's own for landings."""
    parts = Path(ad.get("Iwd", "")).parts
    return next((part for part in reversed(parts) if GROUP_NAME.fullmatch(part)), "")


def one_line(reason: str) -> str:
    """Return the reason for a job's ad: printable, one line, short."""
    return "".join(c if c.isprintable() else " " for c in reason)[:200] or "WMS2"
