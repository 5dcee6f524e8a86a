"""Facts, rounds and events of a request, as tables of its page."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.utils.html import format_html_join
from django.utils.safestring import SafeString

from dags_app.selectors import rounds_of
from dags_app.states import UploadState
from requests_app.models import Request, TimelineEntry
from requests_app.selectors.requests import timeline_of
from requests_app.services.decisions import decisions_of
from requests_app.states import DEADLINES, SWEPT, RequestStatus
from wms2_project.console import link, request_link
from wms2_project.words import counted

MAX_NAMED = 20
MAX_EVENTS = 200


@dataclass(frozen=True, slots=True)
class Event:
    """A status change, or an action and what it changed."""

    at: datetime
    text: str
    actor: str
    reason: str


@dataclass(frozen=True, slots=True)
class RoundRow:
    """A round with its groups and DAGs."""

    number: int
    kind: str
    status: str
    jobs: int
    input_events: int
    groups: SafeString
    dags: SafeString
    nodes: str


def facts_of(row: Request, *, gaps: str) -> list[tuple[str, Any]]:
    """Return the identity, settings and resources of the request. Empty values are left out."""
    flow = row.workflow
    deadline = DEADLINES.get(RequestStatus(row.status))
    next_version = Request.objects.filter(previous_version=row).values_list("request_name", flat=True).first()
    resources = f"{flow.memory_mb} MB, {counted(flow.cores, 'core')}, {flow.time_per_event_sec:g} s/event"
    facts: list[tuple[str, Any]] = [
        ("Priority", f"{row.priority:,}{' · urgent' if row.urgent else ''}"),
        ("Requestor", f"{row.requestor}{f' ({row.group})' if row.group else ''}"),
        ("Submitted by", row.submitted_by),
        ("Campaign", row.campaign),
        ("Version", row.processing_version),
        ("Replaces", row.previous_version and request_link(str(row.previous_version))),
        ("Replaced by", next_version and request_link(next_version)),
        ("Input", ", ".join(flow.input_datasets) or f"generates {counted(flow.total_events or 0, 'event')}"),
        ("Output", ", ".join(flow.written_datasets)),
        ("Splitting", f"{flow.splitting_algo} {_inline(_present(flow.splitting_params))}"),
        ("Resources", resources),
        ("Sites", ", ".join(flow.site_whitelist) or "all"),
        ("Excluded sites", ", ".join(flow.site_blacklist)),
        ("Operator decisions", _inline(_shortened(decisions_of(flow)))),
        ("Not processed", gaps),
        ("Consecutive errors", row.attempt),
        ("Next check", f"{row.next_check_at:%F %T} UTC" if row.status in SWEPT else ""),
        ("Status deadline", f"{row.status_since + deadline.after:%F %R} UTC" if deadline else ""),
        ("Imported", f"{row.created_at:%F %T} UTC from {row.source}"),
        ("Correlation ID", row.correlation_id),
        ("More", _links(row)),
    ]
    return [(name, value) for name, value in facts if value not in ("", None, 0)]


def _links(row: Request) -> SafeString:
    flow = row.workflow
    own = f"workflow__id__exact={flow.pk}"
    links = [
        link("workflow", "admin:dags_app_workflow_change", flow.pk),
        link("input files", "admin:dags_app_inputfile_changelist", query=own),
        link("audit", "admin:wms2_project_auditevent_changelist", query=f"q={row.request_name}"),
    ]
    if flow.pulls:
        uploads = f"runner__workflow__id__exact={flow.pk}&state__exact={UploadState.VOID}"
        links += [
            link("runners", "admin:dags_app_runner_changelist", query=own),
            link("unconfirmed uploads", "admin:dags_app_runneroutput_changelist", query=uploads),
        ]
    return format_html_join(" · ", "{}", ((one,) for one in links))


def round_rows(row: Request) -> list[RoundRow]:
    """Return the newest rounds, newest first."""
    return [_round(one) for one in rounds_of(workflow=row.workflow)]


def _round(one: Mapping[str, Any]) -> RoundRow:
    dags = one["dags"]
    label = _inline(_present(one["groups"])) or "none"
    links = [link(f"{dag['kind']} {dag['status']}", "admin:dags_app_dag_change", dag["id"]) for dag in dags]
    return RoundRow(
        number=one["number"],
        kind=one["kind"],
        status=one["status"],
        jobs=one["jobs"],
        input_events=one["input_events"],
        groups=link(label, "admin:dags_app_mergegroup_changelist", query=f"round={one['id']}"),
        dags=format_html_join(" → ", "{}", ((part,) for part in links)),
        nodes=f"{dags[-1]['nodes_done']:,} of {dags[-1]['total_nodes']:,}" if dags else "–",
    )


def event_rows(row: Request) -> list[Event]:
    """Return status changes and actions, newest first."""
    newest = timeline_of(row).order_by("-at", "-id")[:MAX_EVENTS]
    return [Event(one.at, _event_text(one), one.actor, one.reason) for one in newest]


def _event_text(one: TimelineEntry) -> str:
    if one.kind == "status":
        return f"{one.from_status or 'created'} → {one.to_status}".replace("_", " ")
    changes = _inline(_shortened(one.detail.get("changes") or {}))
    return f"{one.kind.replace('_', ' ')}{f': {changes}' if changes else ''}"


def _shortened(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values with long lists shortened."""
    return {name: _named(value) for name, value in values.items()}


def _named(value: Any) -> Any:
    if not isinstance(value, list):
        return value
    more = len(value) - MAX_NAMED
    return " ".join(map(str, value[:MAX_NAMED])) + (f" and {more} more" if more > 0 else "")


def _present(values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value}


def _inline(values: Mapping[str, Any]) -> str:
    """Return `name value` pairs in one line; a true value is shown by its name only."""
    pairs = ((name.replace("_", " "), value) for name, value in values.items())
    return ", ".join(name if value is True else f"{name} {value}" for name, value in pairs)
