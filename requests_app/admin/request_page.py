"""Values of the request page, for its template."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from urllib.parse import urlencode

from django.utils import timezone
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from dags_app.failures.clusters import Remedy
from dags_app.selectors import rounds_of
from outputs_app.selectors import blocks_of, datasets_of
from requests_app.lifecycle.gate_result import Gate
from requests_app.models import Alert, Request, TimelineEntry
from requests_app.selectors.diagnosis import diagnose
from requests_app.selectors.progress import Progress, progress_of
from requests_app.selectors.requests import position_in_queue, timeline_of
from requests_app.selectors.why import why
from requests_app.services.deciding import decisions_of
from requests_app.states import DEADLINES, SWEPT, TERMINAL, WHY, RequestStatus
from wms2_project.console import Table, age_of, link, progress_bar, request_link, size_of
from wms2_project.words import counted

MAX_NAMED = 20


@dataclass(frozen=True, slots=True)
class RequestPage:
    """All values the template prints."""

    name: str
    status: str
    colour: str
    why: str
    age: str
    wait_reason: str
    last_error: str
    position: int | None
    alerts: list[str]
    blocking: Table
    passed: Table
    evidence: str
    progress: str
    bar: SafeString
    facts: list[tuple[str, Any]]
    rounds: Table
    failures: Table
    datasets: Table
    blocks: Table
    timeline: Table
    document: str


def page_of(row: Request, *, colours: Mapping[str, str]) -> RequestPage:
    """Read everything the page shows, in a fixed number of queries."""
    now, progress = timezone.now(), progress_of(row)
    explanation = why(row, now=now, ask_condor=False)  # a page must not wait for HTCondor
    gates = explanation.gates
    return RequestPage(
        name=row.request_name,
        status=row.status.replace("_", " "),
        colour=colours.get(row.status, ""),
        why=WHY[RequestStatus(row.status)],
        age=age_of(row.status_since, now=now),
        wait_reason=row.wait_reason,
        last_error=row.last_error,
        position=position_in_queue(row),
        alerts=[_alert(one, now=now) for one in row.alerts.filter(closed_at__isnull=True).order_by("id")],
        blocking=_gates([gate for gate in gates if gate.blocks], now=now),
        passed=_gates([gate for gate in gates if not gate.blocks], now=now),
        evidence=_json(row.hold_evidence) if row.hold_evidence else "",
        progress=_progress(row, progress),
        bar=progress_bar(progress.fraction),
        facts=[*_facts(row), *([("Not processed", explanation.gaps)] if explanation.gaps else [])],
        rounds=_rounds(row),
        failures=_failures(row, now=now),
        datasets=_datasets(row),
        blocks=_blocks(row, now=now),
        timeline=_timeline(row),
        document=_json(row.request_data),
    )


def _gates(gates: list[Gate], *, now: datetime) -> Table:
    """Return a table of gates that all block or all pass."""
    rows = [[gate.name, gate.detail, age_of(gate.since, now=now), gate.remedy] for gate in gates]
    if gates and not gates[0].blocks:
        return {"headers": ["gate", "detail"], "rows": [row[:2] for row in rows]}
    return {"headers": ["gate", "detail", "blocked for", "remedy"], "rows": rows}


def _alert(alert: Alert, *, now: datetime) -> str:
    times = f", {alert.count} times" if alert.count > 1 else ""
    known = f", acknowledged by {alert.acknowledged_by}" if alert.acknowledged_at else ""
    age = age_of(alert.created_at, now=now)
    return f"{alert.kind.replace('_', ' ')}: {alert.message} (for {age}{times}{known})"


def _progress(row: Request, done: Progress) -> str:
    end = done.estimated_completion if row.status == RequestStatus.ACTIVE else None
    excluded = f" ({done.events_excluded:,} excluded)" if done.events_excluded else ""
    return (
        f"{done.events_done:,} of {done.events_total:,} events{excluded},"
        f" {done.groups_done:,} of {done.groups_total:,} groups ({counted(done.jobs_total, 'job')});"
        f" {counted(done.events_written, 'event')} written in {counted(done.files, 'file')},"
        f" {done.blocks_announced:,} of {done.blocks:,} blocks announced"
        f"{f'; estimated completion {end:%F %R} UTC' if end else ''}"
    )


def _facts(row: Request) -> list[tuple[str, Any]]:
    flow = row.workflow
    deadline = DEADLINES.get(RequestStatus(row.status))
    next_version = Request.objects.filter(previous_version=row).values_list("request_name", flat=True).first()
    named = f"q={row.request_name}"
    facts: list[tuple[str, Any]] = [
        ("Priority", f"{row.priority:,}{' · urgent' if row.urgent else ''}"),
        ("Requestor", f"{row.requestor}{f' ({row.group})' if row.group else ''}"),
        ("Submitted by", row.submitted_by),
        ("Campaign", row.campaign),
        ("Version", row.processing_version),
        ("Replaces", row.previous_version and request_link(str(row.previous_version))),
        ("Replaced by", next_version and request_link(next_version)),
        ("Input", flow.input_dataset or f"generates {counted(flow.total_events or 0, 'event')}"),
        ("Output", ", ".join(flow.output_datasets)),
        ("Splitting", f"{flow.splitting_algo} {_inline(_present(flow.splitting_params))}"),
        (
            "Resources",
            f"{flow.memory_mb} MB, {counted(flow.cores, 'core')}, {flow.time_per_event_sec:g} s/event",
        ),
        ("Sites", ", ".join(flow.site_whitelist) or "all"),
        ("Excluded sites", ", ".join(flow.site_blacklist)),
        ("Operator decisions", describe_decisions(decisions_of(flow))),
        ("Consecutive errors", row.attempt),
        ("Next check", f"{row.next_check_at:%F %T}" if row.status in SWEPT else ""),
        ("Status deadline", f"{row.status_since + deadline.after:%F %R}" if deadline else ""),
        ("Imported", f"{row.created_at:%F %T} from {row.source}"),
        ("Correlation ID", row.correlation_id),
        (
            "More",
            format_html(
                "{} · {} · {}",
                link("workflow", "admin:dags_app_workflow_change", flow.pk),
                link(
                    "input files",
                    "admin:dags_app_inputfile_changelist",
                    query=f"workflow__id__exact={flow.pk}",
                ),
                link("audit", "admin:wms2_project_auditevent_changelist", query=named),
            ),
        ),
    ]
    return [(name, value) for name, value in facts if value not in ("", None, 0)]


def _rounds(row: Request) -> Table:
    lines = []
    for one in rounds_of(workflow=row.workflow):
        label = _inline(_present(one["groups"])) or "none"
        groups = link(label, "admin:dags_app_mergegroup_changelist", query=f"round={one['id']}")
        ran = one["dags"]
        dags = [link(f"{dag['kind']} {dag['status']}", "admin:dags_app_dag_change", dag["id"]) for dag in ran]
        nodes = f"{ran[-1]['nodes_done']}/{ran[-1]['total_nodes']}" if ran else "–"
        plain = [one[name] for name in ("number", "kind", "status")]
        large = [f"{one[name]:,}" for name in ("jobs", "input_events")]
        lines.append([*plain, *large, groups, _joined(dags), nodes])
    return {
        "headers": ["round", "kind", "status", "jobs", "input events", "groups", "DAGs", "nodes done"],
        "rows": lines,
    }


def _failures(row: Request, *, now: datetime) -> Table:
    """Return clusters of similar failures of ended and running DAGs, with suggestions."""
    found = diagnose(row, now=now)
    return {
        "headers": ["jobs", "site", "failed here / elsewhere", "failure", "example", "suggestion"],
        "rows": [
            [one["jobs"], one["site"] or "–", _shares(one), _what(one), _broken(one["example"]),
             _advice(row, one["suggestion"])]
            for one in (*found.running, *found.clusters)
        ],
    }  # fmt: skip


def _shares(cluster: Mapping[str, Any]) -> str:
    elsewhere = f"{cluster['share_elsewhere']:.0%}" if cluster["jobs_elsewhere"] else "–"
    return f"{cluster['share_at_site']:.0%} / {elsewhere}"


def _what(cluster: Mapping[str, Any]) -> str:
    """Describe the failure. Jobs that died before their first step have no step."""
    step = f" in {cluster['step']}" if cluster["step"] else ""
    again = f", in {cluster['dags']} DAGs" if cluster.get("dags", 1) > 1 else ""
    place = f"round {cluster.get('round', 'in progress')}{again}"
    return f"{cluster['category']} {cluster['exit_code']}{step}, {place}"


def _advice(row: Request, suggestion: Mapping[str, Any]) -> str:
    """Return the suggestion; for a held request, with a link to its prefilled form."""
    if row.status in TERMINAL:
        return "–"
    action = suggestion["action"].replace("_", " ")
    if row.status == RequestStatus.HELD:
        button = "fail" if suggestion["action"] == Remedy.FAIL else "release"
        query = urlencode({name: _typed(value) for name, value in suggestion["modifications"].items()})
        action = link(action, f"admin:requests_app_request_{button}", row.pk, query=query)
    return format_html("{}: {}", action, suggestion["why"])


def _typed(value: Any) -> str:
    return " ".join(value) if isinstance(value, list) else str(value)


def _broken(text: str) -> SafeString:
    return format_html('<span class="wms2-breaks">{}</span>', text)


def _datasets(row: Request) -> Table:
    return {
        "headers": [
            "dataset", "status", "blocks announced", "on tape", "files", "events", "size", "shared with",
        ],
        "rows": [
            [_broken(one.dataset_name), one.status.replace("_", " "), f"{one.blocks_announced}/{one.blocks}",
             one.blocks_archived, one.files, f"{one.events:,}", size_of(one.size_bytes),
             ", ".join(one.shared_with) or "–"]
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
            [name, block.site, block.status.replace("_", " "), since, sizes.n_files,
             f"{sizes.n_events or 0:,}", size_of(sizes.n_bytes), _broken(block.last_error)]
        )  # fmt: skip
    return {
        "headers": ["block", "site", "status", "since", "files", "events", "size", "last error"],
        "rows": lines,
    }


def _timeline(row: Request) -> Table:
    newest = timeline_of(row).order_by("-at", "-id")[:200]
    return {
        "headers": ["time", "event", "by", "reason"],
        "rows": [[f"{one.at:%F %T}", _event(one), one.actor, _broken(one.reason)] for one in newest],
    }


def _event(one: TimelineEntry) -> SafeString:
    """Describe a status change, or an action and what it changed."""
    if one.kind == "status":
        return _broken(f"{one.from_status or 'created'} → {one.to_status}".replace("_", " "))
    changed = one.detail.get("changes") or {}
    changes = _inline({name: _named(value) for name, value in changed.items()})
    return _broken(f"{one.kind.replace('_', ' ')}{f': {changes}' if changes else ''}")


def describe_decisions(decisions: Mapping[str, Any]) -> str:
    """Return operator decisions in one line. Long file lists are shortened."""
    return _inline({name: _named(value) for name, value in decisions.items()})


def _named(value: Any) -> Any:
    if not isinstance(value, list):
        return value
    more = len(value) - MAX_NAMED
    return " ".join(value[:MAX_NAMED]) + (f" and {more} more" if more > 0 else "")


def _present(values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value}


def _inline(values: Mapping[str, Any]) -> str:
    """Return `name value` pairs in one line; a true value is shown by its name only."""
    pairs = ((name.replace("_", " "), value) for name, value in values.items())
    return ", ".join(name if value is True else f"{name} {value}" for name, value in pairs)


def _joined(parts: list[SafeString]) -> str:
    return format_html_join(" → ", "{}", ((part,) for part in parts)) or "–"


def _json(value: Any) -> str:
    return json.dumps(value, indent=2, sort_keys=True, ensure_ascii=False)
