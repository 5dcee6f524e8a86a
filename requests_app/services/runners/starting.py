"""The start of a runner, and its heartbeat."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.conf import settings
from django.db import transaction
from django.db.models import Q
from django.utils import timezone

from dags_app.models import MergeGroup, Runner, RunnerOutput, Workflow
from dags_app.pull.ending import end_runner, log_event
from dags_app.pull.patterns import patterns_of
from dags_app.pull.tokens import TokenKind, make_token
from dags_app.states import LIVE_RUNNER, RoundStatus, RunnerEventKind, RunnerOutcome, RunnerState, UploadState
from requests_app.models import Request
from requests_app.services.runners.calls import (
    calling_runner,
    check_lending,
    check_open,
    check_round,
    digest_of,
    is_repeated,
    note_end,
    request_of,
)
from requests_app.states import TERMINAL
from sites_app.models import Site
from sites_app.selectors import usable_sites
from wms2_project.errors import Gone, InvalidInput
from wms2_project.failpoints import failpoint
from wms2_project.postgresql.prepared import execute_prepared, sql_words

START = "start"
HEARTBEAT_SEC = 60
MAX_REMOVALS = 100  # leftovers of other runners that one runner deletes
_BEAT = f"""
    UPDATE dags_app_runner AS r SET heartbeat_at = statement_timestamp()
      FROM dags_app_round o, requests_app_request q
     WHERE r.id = %(runner)s AND r.workflow_id = %(workflow)s AND r.state <> '{RunnerState.ENDED}'
       AND o.id = r.round_id AND o.status = '{RoundStatus.PLANNED}'
       AND q.workflow_id = r.workflow_id AND q.status NOT IN {sql_words(TERMINAL)}
 RETURNING r.state"""  # noqa: S608 - states only


@dataclass(frozen=True, slots=True)
class Started:
    """Response to the start of a runner."""

    runner: UUID
    runner_token: str
    files_token: str
    request_name: str
    heartbeat_sec: int
    patience_sec: int
    jobscript: str
    environment: Mapping[str, str]
    patterns: Sequence[str]
    remove: Sequence[Mapping[str, Any]]


def start_runner(
    *, workflow_id: UUID, round_number: int, group_index: int, body: Mapping[str, Any]
) -> Started:
    """Start a runner of the group. A job that was started again replaces its earlier runner.

    Raise Gone if the round or request is over, InvalidInput for a node or site that is not of the round.
    """
    request = request_of(workflow_id)
    group = (
        MergeGroup.objects.select_related("round__workflow")
        .filter(round__workflow_id=workflow_id, round__number=round_number, index=group_index)
        .first()
    )
    if group is None:
        raise Gone("the group is unknown", cure="End the job")
    digest = digest_of(body)
    known = Runner.objects.filter(instance=body["instance"]).first()
    if known is not None and known.group_id == group.pk and is_repeated(known, START, digest):
        check_open(known, request)
        return _started(known, request)
    check_round(group.round, request)
    check_lending(group.round, request)
    _check_site(group.round.workflow, body["site"])
    runner = _store(group, body, digest)
    failpoint("runner.started")
    return _started(runner, request)


def _store(group: MergeGroup, body: Mapping[str, Any], digest: str) -> Runner:
    with transaction.atomic():
        earlier = Runner.objects.select_for_update().filter(
            round=group.round, node=body["node"], state__in=sorted(LIVE_RUNNER)
        )
        for runner in earlier:
            end_runner(runner=runner, outcome=RunnerOutcome.LOST, message="its job was started again")
            note_end(round_=group.round, workflow=group.round.workflow)
        runner = Runner.objects.create(
            workflow=group.round.workflow, round=group.round, group=group, calls={START: digest}, **body
        )
        log_event(runner, RunnerEventKind.STARTED, message=f"{runner.node} at {runner.site}")
    return runner


def _check_site(workflow: Workflow, site: str) -> None:
    if site in usable_sites(workflow=workflow, now=timezone.now()).names:  # a ban counts at once
        return
    known = Site.objects.filter(pk=site).exists()
    message = f"{site} may not be used by this request" if known else f"there is no site {site}"
    raise InvalidInput(f"site: {message}", fields={"site": message}, cure="End the job")


def _started(runner: Runner, request: Request) -> Started:
    workflow = runner.workflow
    return Started(
        runner=runner.pk,
        runner_token=runner_token(runner, TokenKind.RUNNER),
        files_token=runner_token(runner, TokenKind.FILES),
        request_name=request.request_name,
        heartbeat_sec=HEARTBEAT_SEC,
        patience_sec=settings.RUNNER_PATIENCE_SEC,
        jobscript=str(workflow.payload_config.get("jobscript") or ""),
        environment=_environment(workflow),
        patterns=[one.pattern for one in patterns_of(workflow)],
        remove=_leftovers(runner),
    )


def runner_token(runner: Runner, kind: TokenKind) -> str:
    """Return a token of the runner."""
    return make_token(
        key=settings.JOB_TOKEN_KEY, workflow_id=runner.workflow_id, kind=kind, subject=str(runner.pk)
    )


def _environment(workflow: Workflow) -> dict[str, str]:
    """Return the variables of the jobscript: those of the request, and the names that justIN gives them."""
    given = workflow.payload_config.get("environment") or {}
    own = {"WMS2_WORKFLOW_ID": str(workflow.pk), "WMS2_REQUEST_NAME": workflow.request_name}
    justin = {"JUSTIN_WORKFLOW_ID": str(workflow.number), "JUSTIN_STAGE_ID": "1"}
    return {str(name): str(value) for name, value in given.items()} | own | justin


def _leftovers(runner: Runner) -> list[dict[str, Any]]:
    """Return void outputs that may be on the storage of the runner's site, to be deleted by it."""
    void = RunnerOutput.objects.filter(
        Q(site="", sites__contains=[runner.site]) | Q(site=runner.site),
        runner__workflow_id=runner.workflow_id,
        state=UploadState.VOID,
    )
    return [{"lfn": one.lfn, "sites": one.sites} for one in void.order_by("id")[:MAX_REMOVALS]]


def note_heartbeat(*, workflow_id: UUID, runner_id: UUID, removed: Sequence[str] = ()) -> str:
    """Extend the lease of the runner and note leftovers that it deleted; return its state.

    Raise Gone if the runner, its round or request is over.
    """
    rows = execute_prepared(_BEAT, {"runner": runner_id, "workflow": workflow_id})
    if not rows:
        check_open(calling_runner(workflow_id=workflow_id, runner_id=runner_id), request_of(workflow_id))
        raise Gone("the runner is unknown", cure="End the job")
    if removed:
        void = RunnerOutput.objects.filter(
            lfn__in=removed, runner__workflow_id=workflow_id, state=UploadState.VOID
        )
        void.update(state=UploadState.REMOVED)
    failpoint("runner.heartbeat")
    return str(rows[0][0])
