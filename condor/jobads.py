"""Conversion of node jobs' ads to values."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from condor.layout import GROUP_NAME
from condor.types import RunningJob, StuckJob


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
