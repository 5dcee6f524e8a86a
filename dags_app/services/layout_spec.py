"""Parts of a DAG directory that come from the settings, the workflow and the sandbox."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from django.conf import settings

from condor.dagfile import read_assets
from condor.layout import Asset, DagmanSettings, Retries, Throttles
from dags_app.models import Workflow
from dags_app.planning.layout import LayoutSpec
from dags_app.services.decisions import decided_numbers
from dags_app.services.estimating import pilot_windows
from dags_app.states import RoundKind
from sandbox import build


@cache
def sandbox_assets() -> tuple[Asset, ...]:
    """Return the files of every DAG directory: the executable, the sandbox, scripts of the submit host."""
    with TemporaryDirectory() as made:
        root = Path(made)
        build.copy_run_script(root / "run.sh")
        build.build_sandbox(root / "sandbox.tar.gz")
        build.copy_scripts(root / "scripts")
        return read_assets(root)


def layout_spec(*, workflow: Workflow, round_number: int, kind: RoundKind, priority: int) -> LayoutSpec:
    """Return all that `build_layout` needs besides the plan."""
    throttle = settings.CATEGORY_THROTTLES | workflow.category_throttles
    retry = dict(settings.RETRY_COUNT)
    retry["processing"] = decided_numbers(workflow).get("retry_count", retry["processing"])
    return LayoutSpec(
        round_number=round_number,
        storage=settings.STORAGE_PREFIX,
        output_datasets=workflow.output_datasets,
        merged_lfn_base=workflow.merged_lfn_base,
        unmerged_lfn_base=workflow.unmerged_lfn_base,
        payload=workflow.payload_config,
        pilot=_pilot(workflow) if kind == RoundKind.PILOT else None,
        assets=sandbox_assets(),
        throttles=Throttles(
            processing=throttle["Processing"],
            merge=throttle["Merge"],
            cleanup=throttle["Cleanup"],
            merge_groups=throttle["MergeGroup"],
        ),
        retries=Retries(
            processing=retry["processing"],
            merge=retry["merge"],
            cleanup=retry["cleanup"],
            cooloff_sec=settings.COOLOFF_BASE_SEC,
        ),
        dagman=DagmanSettings(
            status_interval_sec=settings.DAGMAN_STATUS_INTERVAL_SEC,
            queue_update_sec=settings.DAGMAN_QUEUE_UPDATE_SEC,
            log_scan_sec=settings.DAGMAN_LOG_SCAN_SEC,
            max_idle_jobs=settings.DAGMAN_MAX_IDLE_JOBS,
        ),
        priority=priority,
        memory_ceiling_per_core_mb=settings.MEMORY_CEILING_PER_CORE_MB,
        wall_time_ceiling_minutes=settings.WALL_TIME_CEILING_MIN,
        disk_ceiling_per_core_mb=settings.DISK_CEILING_PER_CORE_MB,
        held_grace_sec=settings.HELD_GRACE_SEC,
        max_transfer_output_mb=settings.MAX_TRANSFER_OUTPUT_MB,
    )


def _pilot(workflow: Workflow) -> dict[str, Any]:
    windows = pilot_windows(workflow)
    return {
        "initial_events": windows.first if windows else settings.PILOT_INITIAL_EVENTS,
        "tolerance": settings.PILOT_TOLERANCE,
        "time_budget_sec": windows.budget_sec if windows else settings.PILOT_TIME_BUDGET_SEC,
        "target_job_sec": settings.TARGET_JOB_SEC,
    }
