"""Changes of requests that have not ended, and previews of what a change will affect."""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from django.db import transaction
from django.db.models import F
from django.utils import timezone

from condor.dag_edits import reads_landing_sites
from dags_app.models import DAG, Workflow
from dags_app.services.decisions import COLUMNS
from dags_app.services.landing_sites import find_landings
from dags_app.services.production import is_live, newest_dag, resumes
from dags_app.states import IN_QUEUE, RoundKind, RoundStatus
from requests_app import admission
from requests_app.documents.table import EDITABLE
from requests_app.models import Request
from requests_app.ranking import initial_rank, refresh_ranks
from requests_app.services.decisions import memory_refusal
from requests_app.services.drafting import edit_draft, read_draft
from requests_app.states import TERMINAL, RequestStatus
from requests_app.transitions import check_action
from sites_app.selectors import usable_sites
from wms2_project.access import audit
from wms2_project.errors import Conflict, InvalidInput, StaleVersion
from wms2_project.words import counted

SITE_LISTS = ("site_whitelist", "site_blacklist")
MAX_NAMED = 10
LIVE = tuple(one.name for one in EDITABLE)
ON_REQUEST = frozenset(one.name for one in EDITABLE if one.stored == "request")


@dataclass(frozen=True, slots=True)
class Effects:
    """Changed fields by the time they take effect: at once, at the next round, or never."""

    now: list[str] = field(default_factory=list)
    next_round: list[str] = field(default_factory=list)
    never: list[str] = field(default_factory=list)


def change_request(
    *,
    request: Request,
    actor: str,
    reason: str,
    changes: Mapping[str, Any],
    expected_version: int | None = None,
    on_behalf: bool = True,
    groups: frozenset[str] = frozenset(),
) -> Request:
    """Change priority, sites, memory or throttles; the lifecycle brings it to the queued jobs.

    Of a draft the document itself is changed; `on_behalf`: by an operator, else by a member of `groups`.
    """
    if request.status == RequestStatus.NEW:
        return edit_draft(
            request=request,
            actor=actor,
            reason=reason,
            changes=changes,
            on_behalf=on_behalf,
            groups=groups,
            expected_version=expected_version,
        )
    check_action(request, reason=reason, expected_version=expected_version)
    on_request, on_workflow = _checked(request, changes)
    with transaction.atomic():
        unchanged = Request.objects.filter(pk=request.pk, version=request.version)
        if not unchanged.update(
            **on_request, version=F("version") + 1, next_check_at=timezone.now(), updated_at=timezone.now()
        ):
            raise StaleVersion(f"{request.request_name} changed meanwhile", cure="Read it again and repeat")
        refresh_ranks()
        # Every change increments the workflow's version, which shows that the queued jobs are not up to date.
        Workflow.objects.filter(pk=request.workflow_id).update(**on_workflow, version=F("version") + 1)
        audit.record(
            actor=actor,
            action="change",
            target=request.request_name,
            reason=reason,
            changes=dict(changes),
            previous=present_values(request, changes),
        )
    request.refresh_from_db()
    request.workflow.refresh_from_db()
    return request


def present_values(request: Request, names: Iterable[str] = LIVE) -> dict[str, Any]:
    """Return the present values of editable fields by name."""
    return {
        name: getattr(request if name in ON_REQUEST else request.workflow, COLUMNS.get(name, name))
        for name in names
    }


def preview_change(
    *,
    request: Request,
    changes: Mapping[str, Any],
    actor: str,
    on_behalf: bool = True,
    groups: frozenset[str] = frozenset(),
) -> Effects:
    """Return the effects of `change_request` without writing; raise the same errors."""
    if request.status == RequestStatus.NEW:
        read_draft(request, changes, actor=actor, on_behalf=on_behalf, groups=groups)
        return Effects(now=["draft: its document; it is not processed before it is submitted"])
    _, on_workflow = _checked(request, changes)
    effects = Effects()
    dag = newest_dag(workflow=request.workflow)
    queued = dag is not None and dag.status in IN_QUEUE
    plans = _will_plan(request, dag)
    later = effects.next_round if plans else effects.never
    then = "jobs planned from then on" if plans else "everything is planned already"
    if "priority" in changes:
        effects.now.append(f"priority: {_preview_place(request, changes['priority'])}")
        if queued:
            effects.now.append("priority: every job in the queue, and those the DAG submits from now on")
    if any(name in changes for name in SITE_LISTS):
        later.append(f"sites: {then}")
        if dag is not None and queued:
            _preview_sites(
                effects, dag, before=request.workflow, after=_changed(request.workflow, on_workflow)
            )
    if "memory_mb" in changes:
        _preview_memory(effects, changes["memory_mb"], plans=plans, dag=dag)
    for name in (one for one in changes if one not in ("priority", *SITE_LISTS, "memory_mb")):
        later.append(f"{name}: {then}")
        if queued:
            effects.never.append(f"{name}: the DAG that runs now")
    return effects


def _preview_place(request: Request, priority: int) -> str:
    """Describe the place in the admission queue that the priority gives."""
    if not admission.in_line(request):
        return f"the place in the admission queue becomes that of {priority}"
    changed = copy.copy(request)
    changed.rank += initial_rank(priority) - initial_rank(request.priority)
    before, after = admission.ahead_of(request) + 1, admission.ahead_of(changed) + 1
    moves = f"moves from position {before} to {after}" if before != after else f"stays at position {before}"
    return f"the request {moves} in the admission queue"


def _preview_sites(effects: Effects, dag: DAG, *, before: Workflow, after: Workflow) -> None:
    """Add the groups of the running DAG that would land elsewhere, wait, or stay."""
    now = timezone.now()
    old = find_landings(dag=dag, sites=usable_sites(workflow=before, now=now))
    new = find_landings(dag=dag, sites=usable_sites(workflow=after, now=now))
    moved = [group for group, sites in new.waiting.items() if sites and sites != old.waiting.get(group)]
    if moved and not reads_landing_sites(Path(dag.submit_dir)):
        message = f"sites: {counted(len(moved), 'group')} whose landing the DAG submits later: it is too old"
        effects.never.append(message)
    elif moved:
        sites = sorted(frozenset[str]().union(*(new.waiting[group] for group in moved)))
        message = f"sites: {counted(len(moved), 'group')} not landed yet ({_some(moved)})"
        effects.now.append(f"{message} may land at {_some(sites)}")
    if new.stranded:
        message = f"sites: {counted(len(new.stranded), 'group')} ({_some(new.stranded)})"
        effects.now.append(f"{message} waiting for a usable site")
    if new.landed:
        where = Counter(new.landed.values())
        stay = ", ".join(f"{where[site]} at {site}" for site in sorted(where))
        effects.never.append(f"sites: {counted(len(new.landed), 'group')} landed already and stay: {stay}")
    if not moved and not new.stranded:
        effects.never.append("sites: no group of the DAG that runs would land elsewhere")


def _some(names: list[str]) -> str:
    more = f" and {len(names) - MAX_NAMED} more" if len(names) > MAX_NAMED else ""
    return ", ".join(names[:MAX_NAMED]) + more


def _preview_memory(effects: Effects, memory_mb: int | None, *, plans: bool, dag: DAG | None) -> None:
    """Preview a decision on memory.

    It applies to the next planning, and to unfinished groups in a further DAG.
    """
    asks = "the measured memory" if memory_mb is None else f"{memory_mb} MB, regardless of measurements"
    if plans:
        effects.next_round.append(f"memory_mb: jobs planned from then on request {asks}")
    if memory_mb is not None and dag is not None and (dag.status in IN_QUEUE or resumes(dag)):
        effects.next_round.append(
            f"memory_mb: jobs run again by a rescue or resume of the DAG request {asks}"
        )
    if dag is not None and dag.status in IN_QUEUE:
        effects.never.append("memory_mb: jobs of the DAG that runs now")
    elif not effects.next_round:
        effects.never.append("memory_mb: everything is planned already")


def _will_plan(request: Request, dag: DAG | None) -> bool:
    """Return whether a round is still to be planned.

    A workflow that is not adaptive has one after its pilot. The release of a held request plans what an ended
    DAG has left, unless the DAG can be resumed.
    """
    workflow = request.workflow
    planned = workflow.rounds.filter(kind=RoundKind.PRODUCTION, status=RoundStatus.PLANNED)
    if workflow.adaptive or not planned.exists():
        return True
    return request.status == RequestStatus.HELD and not is_live(dag) and not resumes(dag)


def _checked(request: Request, changes: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the columns of the request and of its workflow that change; raise if that is impossible.

    The values are validated where they enter, by the field table.
    """
    if request.status in TERMINAL:
        raise Conflict(f"{request.request_name} is {request.status}", cure="Ended requests cannot be changed")
    only_draft = "can be changed only while the request is a draft"
    wrong = {name: only_draft for name in changes if name not in LIVE}
    if wrong or not changes:
        raise InvalidInput("nothing was changed", fields=wrong or {"changes": "name at least one field"})
    on_request = {name: value for name, value in changes.items() if name in ON_REQUEST}
    if "priority" in on_request:
        on_request["rank"] = initial_rank(on_request["priority"])
    on_workflow = {
        COLUMNS.get(name, name): value for name, value in changes.items() if name not in ON_REQUEST
    }
    if throttles := on_workflow.get("category_throttles"):
        on_workflow["category_throttles"] = request.workflow.category_throttles | throttles
    if on_workflow and (wrong := _impossible(request.workflow, on_workflow)):
        raise InvalidInput("nothing was changed", fields=wrong)
    return on_request, on_workflow


def _impossible(workflow: Workflow, changes: Mapping[str, Any]) -> dict[str, str]:
    """Return errors for changes that hold the request later: no site left, or none with enough memory."""
    changed = _changed(workflow, changes)
    pool = usable_sites(workflow=changed, now=timezone.now())
    if not pool.names:
        message = "no site is left: those allowed are unknown, draining, banned or on the other list"
        return {name: message for name in SITE_LISTS if name in changes}
    return memory_refusal(changed, changes.get(COLUMNS["memory_mb"]), pool)


def _changed(workflow: Workflow, changes: Mapping[str, Any]) -> Workflow:
    """Return the workflow with the changes, not stored."""
    changed = copy.copy(workflow)
    for name, value in changes.items():
        setattr(changed, name, value)
    return changed
