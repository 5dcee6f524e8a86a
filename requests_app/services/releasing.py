"""Release of held requests with operator modifications, and its preview."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import Any

from django.db import transaction
from django.db.models import Count

from dags_app.failures import records
from dags_app.failures.records import CREDITED
from dags_app.models import DAG, Workflow
from dags_app.planning.types import SitePool
from dags_app.services import ledger, locations, production, secondary
from dags_app.services.decisions import COLUMNS, decide
from dags_app.services.manifests import BadManifest, count_damaged
from dags_app.states import FAILED_DAG, UNFINISHED_FILE, DAGKind, DAGStatus, FileState, RoundStatus
from outputs_app import services as outputs
from requests_app.lifecycle.recovering import learn
from requests_app.models import Request
from requests_app.services.decisions import memory_refusal
from requests_app.services.outputs import collect
from requests_app.states import RequestStatus as S
from requests_app.transitions import check_action, transition
from sites_app.models import Site
from sites_app.selectors import usable_sites
from sites_app.services.bans import ban_site
from wms2_project.access import audit
from wms2_project.errors import Conflict, InvalidInput, ServiceUnavailable


@dataclass(frozen=True, slots=True)
class Modifications:
    """Modifications of a release; none by default."""

    site_bans: tuple[str, ...] = ()
    excluded_files: tuple[str, ...] = ()
    memory_mb: int | None = None
    time_per_event_sec: float | None = None
    retry_count: int | None = None
    error_hold_threshold: float | None = None

    def as_json(self) -> dict[str, Any]:
        """Return the set modifications, for the audit."""
        return {name: value for name, value in asdict(self).items() if value not in (None, ())}


@dataclass(frozen=True, slots=True)
class ReleasePreview:
    """Effect of a release. Credited groups are kept; other work is planned again or resumed."""

    resumes: bool
    groups_credited: int
    groups_to_rerun: int
    groups_discarded: int  # of these: finished, with a damaged manifest
    sites_left: list[str]
    files_excluded: list[str]
    excluded_but_readable: list[str] | None  # a good replica exists now; None: not known from Rucio
    files_left: int
    files_unreadable: int  # by the remaining sites
    next_first_event: int | None
    changes: dict[str, Any] = field(default_factory=dict)


def release_request(
    *,
    request: Request,
    actor: str,
    reason: str,
    now: datetime,
    expected_version: int | None = None,
    modifications: Modifications | None = None,
) -> Request:
    """Release a held request. Finished groups are credited; the rest is planned again or resumed."""
    changes = modifications or Modifications()
    check_action(request, reason=reason, expected_version=expected_version)
    _check_held(request)
    _check(request, changes, now)
    dag = production.newest_dag(workflow=request.workflow)
    damaged = to_be_judged = False
    if dag is not None and not production.is_live(dag):  # the DAG may have ended while the request was held
        try:
            collect(dag, now)
        except BadManifest:
            damaged = True  # DAGMan counts the group as done: close the round, plan it again
        to_be_judged = not damaged and dag.status in FAILED_DAG and _is_open(dag)
        if not to_be_judged and dag.status in (*FAILED_DAG, DAGStatus.COMPLETED) and _is_open(dag):
            learn(request, dag, now)
    with transaction.atomic():
        columns: dict[str, Any] = {"hold_evidence": None, "hold_after_stop": False}
        transition(request=request, to=S.QUEUED, reason=reason, actor=actor, changes=columns)
        _apply(request, changes, actor=actor, reason=reason, now=now)
        if dag is not None and production.resumes(dag) and not damaged:
            production.prepare_dag(parent=dag, kind=DAGKind.RESUME)
        elif dag is not None and not production.is_live(dag) and not to_be_judged:
            production.resolve_round(round_=dag.round, now=now)
        if changes.as_json():
            audit.record(
                actor=actor,
                action="release",
                target=request.request_name,
                reason=reason,
                changes=changes.as_json(),
            )
    return request


def _is_open(dag: DAG) -> bool:
    """Return whether the DAG's failures are still to be evaluated because it ended during the hold."""
    return dag.round.status == RoundStatus.PLANNED and not records.is_judged(dag=dag)


def preview_release(
    *, request: Request, modifications: Modifications, now: datetime, ask_rucio: bool = True
) -> ReleasePreview:
    """Return the effect of the release, or raise as it would. Nothing is written.

    `ask_rucio`: whether to look up replicas of the files to be excluded.
    """
    _check_held(request)
    pool = _check(request, modifications, now)
    workflow, dag = request.workflow, production.newest_dag(workflow=request.workflow)
    credited = rerun = damaged = 0
    if dag is not None:
        groups = dag.round.groups
        damaged = 0 if production.is_live(dag) else count_damaged(dag=dag)
        credited = groups.filter(status__in=CREDITED).count() - damaged
        rerun = groups.count() - credited if dag.round.status == RoundStatus.PLANNED else 0
    left, unreadable = _files_left(workflow, modifications, pool)
    return ReleasePreview(
        resumes=production.resumes(dag) and not damaged,
        groups_credited=credited,
        groups_to_rerun=rerun,
        groups_discarded=damaged,
        sites_left=sorted(pool.names),
        files_excluded=sorted(modifications.excluded_files),
        excluded_but_readable=_readable(workflow, modifications, pool) if ask_rucio else None,
        files_left=left,
        files_unreadable=unreadable,
        next_first_event=workflow.next_first_event if workflow.generates else None,
        changes=modifications.as_json(),
    )


def _check_held(request: Request) -> None:
    if request.status != S.HELD:
        raise Conflict(
            f"{request.request_name} is {request.status}, not held", cure="Only held requests can be released"
        )


def _check(request: Request, changes: Modifications, now: datetime) -> SitePool:
    """Return the remaining sites. Raise InvalidInput with all errors of the modifications."""
    wrong: dict[str, str] = {}
    unknown = set(changes.site_bans) - set(
        Site.objects.filter(pk__in=changes.site_bans).values_list("pk", flat=True)
    )
    if unknown:
        wrong["site_bans"] = f"unknown site {', '.join(sorted(unknown))}"
    wrong |= _wrong_files(request.workflow, changes)
    pool = usable_sites(workflow=request.workflow, now=now)
    pool = pool.without(changes.site_bans)
    if not wrong and changes.site_bans and not pool.names:
        wrong["site_bans"] = "no usable site would remain: extend the site list, or lift another ban first"
    wrong |= memory_refusal(request.workflow, changes.memory_mb, pool)
    if wrong:
        raise InvalidInput("the request was not released", fields=wrong)
    return pool


def _wrong_files(workflow: Workflow, changes: Modifications) -> dict[str, str]:
    if not changes.excluded_files:
        return {}
    named = workflow.input_files.filter(lfn__in=changes.excluded_files)
    states = dict(named.values_list("lfn", "state"))
    missing = sorted(set(changes.excluded_files) - set(states))
    if missing:
        return {"excluded_files": f"not an input file of this request: {missing[0]}"}
    done = sorted(lfn for lfn, state in states.items() if state == FileState.PROCESSED)
    return {"excluded_files": f"already processed: {done[0]}"} if done else {}


def _files_left(workflow: Workflow, changes: Modifications, pool: SitePool) -> tuple[int, int]:
    """Return the number of unprocessed files, and of those no remaining site can read."""
    waiting = workflow.input_files.filter(state__in=sorted(UNFINISHED_FILE))
    by_place = waiting.exclude(lfn__in=changes.excluded_files).order_by().values_list("locations")
    counted = list(by_place.annotate(files=Count("id")))
    unreadable = sum(files for places, files in counted if not pool.reading(frozenset(places)))
    return sum(files for _, files in counted), unreadable


def _readable(workflow: Workflow, changes: Modifications, pool: SitePool) -> list[str] | None:
    """Return the files that would be excluded although a usable site can read a good replica now."""
    if not changes.excluded_files:
        return []
    try:
        return locations.readable_files(lfns=changes.excluded_files, workflow=workflow, sites=pool)
    except ServiceUnavailable:
        return None


def _apply(request: Request, changes: Modifications, *, actor: str, reason: str, now: datetime) -> None:
    workflow = request.workflow
    locations.forget_locations(workflow=workflow)
    secondary.forget_locations(workflow=workflow)
    outputs.forget_conflicts(workflow=workflow)
    outputs.check_again(workflow=workflow, now=now)
    for site in Site.objects.filter(pk__in=changes.site_bans).order_by("pk"):
        ban_site(site=site, workflow=workflow, reason=reason, actor=actor, now=now, by_operator=True)
    if changes.excluded_files:
        ledger.exclude_files(workflow=workflow, lfns=changes.excluded_files, reason=reason, actor=actor)
    given = {name: getattr(changes, name) for name in COLUMNS}
    decide(workflow=workflow, numbers={name: value for name, value in given.items() if value is not None})
