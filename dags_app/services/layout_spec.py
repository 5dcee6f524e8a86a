"""Parts of a DAG directory that come from the settings, the workflow and the sandbox."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from django.conf import settings
from django.db.models import Max

from condor.dagfile import read_assets
from condor.layout import Asset, DagmanSettings, Retries, Throttles
from dags_app.models import Workflow
from dags_app.planning.configurations import system_of
from dags_app.planning.layout import MIN_DISK_KB, MIN_WALL_MINUTES, LayoutSpec, PullSpec
from dags_app.services.decisions import decided_numbers
from dags_app.services.estimating import pilot_windows
from dags_app.services.payloads import payload_of, payload_rules
from dags_app.services.secondary import pileup_of
from dags_app.services.storage_places import storage_files
from dags_app.states import RoundKind
from sandbox import build


@cache
def sandbox_assets(plugins: tuple[str, ...]) -> tuple[Asset, ...]:
    """Return the files of every DAG directory: the executable, the sandbox, scripts of the submit host."""
    with TemporaryDirectory() as made:
        root = Path(made)
        build.copy_run_script(root / "run.sh")
        build.build_sandbox(root / "sandbox.tar.gz", plugins=plugins)
        build.copy_scripts(root / "scripts", plugins=plugins)
        return read_assets(root)


def layout_spec(
    *,
    workflow: Workflow,
    round_number: int,
    kind: RoundKind,
    priority: int,
    prefixes: Mapping[str, Sequence[str]],
) -> LayoutSpec:
    """Return the input of `build_layout` besides the plan; `prefixes`: storage by site, from Rucio."""
    throttle = settings.CATEGORY_THROTTLES | workflow.category_throttles
    retry = dict(settings.RETRY_COUNT)
    files = pileup_of(workflow=workflow)
    pileup = {"pileup": files} if files else {}
    retry["processing"] = decided_numbers(workflow).get("retry_count", retry["processing"])
    payload = payload_of(workflow)
    return LayoutSpec(
        round_number=round_number,
        output_datasets=workflow.output_datasets,
        merged_lfn_base=workflow.merged_lfn_base,
        unmerged_lfn_base=workflow.unmerged_lfn_base,
        payload=payload | pileup,
        pilot=_pilot(workflow) if kind == RoundKind.PILOT else None,
        assets=sandbox_assets(payload_rules().plugins),
        job_files=storage_files(prefixes=prefixes),
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
        with_token=bool(settings.TOKEN_ISSUER),
        job_proxy=settings.JOB_PROXY,
        required_os=system_of(payload, workflow.scram_arch),
        log_dataset=workflow.log_dataset or "",
        pull=_pull(workflow) if kind == RoundKind.PULL else None,
    )


def _pull(workflow: Workflow) -> PullSpec:
    """Return what runners need: a slot as long as a job may be, and disk for several files."""
    largest = workflow.input_files.aggregate(size=Max("size_bytes"))["size"] or 0
    return PullSpec(
        url=settings.JOBS_URL,
        token_key=settings.JOB_TOKEN_KEY,
        wall_minutes=max(MIN_WALL_MINUTES, settings.TARGET_JOB_SEC // 60),
        disk_kb=max(MIN_DISK_KB, 4 * largest // 1024),
    )


def _pilot(workflow: Workflow) -> dict[str, Any]:
    windows = pilot_windows(workflow)
    return {
        "initial_events": windows.first if windows else settings.PILOT_INITIAL_EVENTS,
        "tolerance": settings.PILOT_TOLERANCE,
        "time_budget_sec": windows.budget_sec if windows else settings.PILOT_TIME_BUDGET_SEC,
        "target_job_sec": settings.TARGET_JOB_SEC,
    }
