"""What the page of one request shows, as plain values for its template."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.utils import timezone
from django.utils.html import format_html
from django.utils.safestring import SafeString

from dags_app.selectors import rounds_of
from outputs_app.selectors import blocks_of, datasets_of
from requests_app.models import Alert, Request
from requests_app.selectors import Progress, position_in_queue, progress_of, timeline_of
from requests_app.states import DEADLINES, SWEPT, WHY, RequestStatus
from wms2_project.console import Table, age_of, link, progress_bar, size_of


@dataclass(frozen=True, slots=True)
class RequestPage:
    """Everything the template prints."""

    name: str
    status: str
    colour: str
    why: str
    age: str
    wait_reason: str
    last_error: str
    position: int | None
    alerts: list[Alert]
    evidence: str
    progress: Progress
    bar: SafeString
    facts: list[tuple[str, Any]]
    rounds: Table
    datasets: Table
    blocks: Table
    timeline: Table
    document: str


def page_of(row: Request, *, colours: Mapping[str, str]) -> RequestPage:
    """Read what belongs to the request, in a fixed number of queries."""
    now, progress = timezone.now(), progress_of(row)
    return RequestPage(
        name=row.request_name,
        status=row.status.replace("_", " "),
        colour=colours.get(row.status, ""),
        why=WHY[RequestStatus(row.status)],
        age=age_of(row.status_since, now=now),
        wait_reason=row.wait_reason,
        last_error=row.last_error,
        position=position_in_queue(row),
        alerts=list(row.alerts.filter(closed_at__isnull=True).order_by("id")),
        evidence=_json(row.hold_evidence) if row.hold_evidence else "",
        progress=progress,
        bar=progress_bar(progress.fraction),
        facts=_facts(row),
        rounds=_rounds(row),
        datasets=_datasets(row),
        blocks=_blocks(row, now=now),
        timeline=_timeline(row),
        document=_json(row.request_data),
    )


def _facts(row: Request) -> list[tuple[str, Any]]:
    flow = row.workflow
    deadline = DEADLINES.get(RequestStatus(row.status))
    facts: list[tuple[str, Any]] = [
        ("Priority", f"{row.priority}{' · urgent' if row.urgent else ''}"),
        ("Requestor", f"{row.requestor}{f' ({row.group})' if row.group else ''}"),
        ("Submitted by", row.submitted_by),
        ("Campaign", row.campaign),
        ("Version", row.processing_version),
        ("Replaces", row.previous_version),
        ("Input", flow.input_dataset or f"generates {flow.total_events} events"),
        ("Output", ", ".join(flow.output_datasets)),
        ("Splitting", f"{flow.splitting_algo} {_inline(flow.splitting_params)}"),
        ("Resources", f"{flow.memory_mb} MB, {flow.cores} cores, {flow.time_per_event_sec:g} s/event"),
        ("Sites", ", ".join(flow.site_whitelist) or "all"),
        ("Not at", ", ".join(flow.site_blacklist)),
        ("Overrides", _inline(row.overrides)),
        ("Errors in a row", row.attempt),
        ("Next look", f"{row.next_check_at:%F %T}" if row.status in SWEPT else ""),
        ("Deadline of this status", f"{row.status_since + deadline.after:%F %R}" if deadline else ""),
        ("Imported", f"{row.created_at:%F %T} from {row.source}"),
        ("Correlation", row.correlation_id),
    ]
    return [(name, value) for name, value in facts if value not in ("", None, 0)]


def _rounds(row: Request) -> Table:
    lines = []
    for one in rounds_of(workflow=row.workflow):
        told = _inline(_present(one.groups)) or "none"
        groups = link(told, "admin:dags_app_mergegroup_changelist", query=f"round={one.id}")
        dags = [link(f"{dag.kind} {dag.status}", "admin:dags_app_dag_change", dag.pk) for dag in one.dags]
        nodes = f"{one.dags[-1].nodes_done}/{one.dags[-1].total_nodes}" if one.dags else "–"
        lines.append(
            [one.number, one.kind, one.status, one.jobs, one.input_events, groups, _joined(dags), nodes]
        )
    return {
        "headers": ["round", "kind", "status", "jobs", "input events", "groups", "DAGs", "nodes done"],
        "rows": lines,
    }


def _datasets(row: Request) -> Table:
    return {
        "headers": ["dataset", "status", "blocks announced", "files", "events", "size"],
        "rows": [
            [one.dataset_name, one.status, f"{one.blocks_announced}/{one.blocks}", one.files, one.events,
             size_of(one.size_bytes)]
            for one in datasets_of(workflow=row.workflow)
        ],
    }  # fmt: skip


def _blocks(row: Request, *, now: datetime) -> Table:
    lines = []
    for block in blocks_of(workflow=row.workflow):
        sizes: Any = block  # the annotations are not on the model
        name = link(block.block_name, "admin:outputs_app_outputblock_change", block.pk)
        since = age_of(block.status_since, now=now)
        lines.append(
            [name, block.site, block.status, since, sizes.n_files, sizes.n_events or 0,
             size_of(sizes.n_bytes), block.last_error]
        )  # fmt: skip
    return {
        "headers": ["block", "site", "status", "since", "files", "events", "size", "last error"],
        "rows": lines,
    }


def _timeline(row: Request) -> Table:
    newest = timeline_of(row).order_by("-id")[:200]
    return {
        "headers": ["time", "from", "to", "by", "because"],
        "rows": [
            [f"{one.at:%F %T}", one.from_status, one.to_status, one.actor, one.reason] for one in newest
        ],
    }


def _present(counts: Mapping[str, int]) -> dict[str, int]:
    return {name: count for name, count in counts.items() if count}


def _inline(values: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} {value}" for name, value in values.items())


def _joined(parts: list[SafeString]) -> SafeString:
    joined = format_html("–") if not parts else parts[0]
    for part in parts[1:]:
        joined = format_html("{} → {}", joined, part)
    return joined


def _json(value: Any) -> str:
    return json.dumps(value, indent=2, sort_keys=True, ensure_ascii=False)
