"""How the ads of node jobs become values."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from condor.layout import GROUP_NAME
from condor.types import RunningJob, StuckJob


def build_stuck_job(ad: Mapping[str, Any]) -> StuckJob:
    """A job that does not move."""
    return StuckJob(
        batch_name=ad["JobBatchName"],
        group=group_of(ad),
        node=ad.get("DAGNodeName", ""),
        hold_code=int(ad.get("HoldReasonCode", 0)),
        reason=one_line(ad["HoldReason"]) if ad.get("HoldReason") else "",
        since=datetime.fromtimestamp(ad.get("EnteredCurrentStatus", 0), UTC),
    )


def build_running_job(ad: Mapping[str, Any]) -> RunningJob:
    """A job that runs; before HTCondor first hears of its CPU time that is 0."""
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
    """A job's directory is `<group>/reports`, or for the landing the group's own."""
    parts = Path(ad.get("Iwd", "")).parts
    return next((part for part in reversed(parts) if GROUP_NAME.fullmatch(part)), "")


def one_line(reason: str) -> str:
    """Free text for the job's ad: printable, one line, short."""
    return "".join(c if c.isprintable() else " " for c in reason)[:200] or "WMS2"
