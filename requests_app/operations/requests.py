"""Operations on requests, and the rescue of a DAG."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from typing import Any

from django.conf import settings

from dags_app.api.serializers import DAGRow
from dags_app.operations import DAG_TARGET
from dags_app.services.production import newest_dag
from requests_app.api.inputs import (
    ChangeInput,
    FailFilesInput,
    ReleaseInput,
    RestartInput,
    ShareInput,
    StopInput,
    modifications_of,
)
from requests_app.api.request_table import render_detail
from requests_app.api.serializers import ActionBody, RequestDetail, RestartBody
from requests_app.models import Request
from requests_app.selectors.requests import affected_by, owners_of, request_by_name
from requests_app.services import (
    drafting,
    editing,
    failing,
    failing_files,
    owning,
    releasing,
    rescuing,
    restarting,
    stopping,
)
from requests_app.states import TERMINAL, RequestStatus, may_move
from wms2_project.access.roles import Role
from wms2_project.api.bodies import body_of
from wms2_project.errors import Conflict, NotAllowed
from wms2_project.operations import Call, Done, Operation, Run, Target, Weight
from wms2_project.words import counted

S = RequestStatus


def _check_owner(call: Call) -> None:
    """Operators may touch every request, requestors their own."""
    if not call.caller.operates and call.caller.username not in owners_of(call.row):
        raise NotAllowed(f"{call.row} belongs to {call.row.requestor}", cure="Ask the owner or an operator")


def _acted(call: Call, done: Done) -> Any:
    return ActionBody(
        {
            "request_name": done.row.request_name,
            "status": done.row.status,
            "previous_status": call.status_before,
            "reason": call.reason,
            "message": done.message,
            "version": done.row.version,
            **done.more,
        }
    ).data


REQUEST = Target(
    kind="request",
    route="requests/<request_name:name>",
    find=request_by_name,
    body=ActionBody,
    render=_acted,
    guard=_check_owner,
    guarded="below operators for their own requests only",
)


def _arguments(call: Call) -> dict[str, Any]:
    return {"request": call.row, "expected_version": call.expected_version, **call.signed}


def _calls(service: Callable[..., Request], message: str, *, dated: bool = False) -> Run:
    """Return a run that calls a service with the input; `dated`, also with the time of the call."""

    def run(call: Call) -> Done:
        more = {"now": call.now} if dated else {}
        return Done(service(**_arguments(call), **call.values, **more), message)

    return run


def _fail_files(call: Call) -> Done:
    count = failing_files.fail_files(**_arguments(call), **call.values)
    return Done(call.row, f"{counted(count, 'file')} excluded.")


def _stop(call: Call) -> Done:
    row = stopping.stop_request(**_arguments(call), **call.values)
    more = {"stop_reason": call.reason}
    if row.status == S.HELD:
        return Done(row, "Nothing was running: the request is held until it is released.", more)
    after = "stays held until it is released" if row.hold_after_stop else "is prepared to resume"
    return Done(row, f"Clean stop under way: finished work is kept, then the request {after}.", more)


def _release(call: Call) -> Done:
    row = releasing.release_request(
        **_arguments(call), modifications=modifications_of(call.values), now=call.now
    )
    return Done(row, "Released: it waits for admission.")


def _preview_release(call: Call) -> Any:
    changes = modifications_of(call.values)
    return releasing.preview_release(request=call.row, modifications=changes, now=call.now)


def _render_preview(call: Call, preview: Any) -> Any:
    return _acted(call, Done(call.row, "Dry run: nothing was changed.", {"preview": asdict(preview)}))


def _rescue(call: Call) -> Done:
    dag = newest_dag(workflow=call.row.workflow)
    if dag is None:
        raise Conflict(f"{call.row} has no DAG", cure="Release it instead")
    rescuing.rescue_dag(dag=dag, **call.signed)
    call.row.refresh_from_db()
    return Done(call.row, "Its last DAG is submitted again: it waits for admission.")


def _rescue_dag(call: Call) -> Done:
    made = rescuing.rescue_dag(dag=call.row, **call.signed)
    return Done(made, f"{made.pk} is prepared and queued.")


def _restart(call: Call) -> Done:
    made = restarting.restart_request(**_arguments(call), **call.values)
    return Done(made, f"{call.row} is {call.row.status}; {made} replaces it.")


def _preview_restart(call: Call) -> Any:
    return restarting.preview_restart(request=call.row, actor=call.caller.actor, **call.values)


def _change(call: Call) -> Done:
    effects = _preview_change(call)
    row = editing.change_request(
        **_arguments(call),
        changes=call.values,
        on_behalf=call.caller.operates,
        groups=call.caller.groups,
    )
    lines = [*effects.now, *(f"next round: {one}" for one in effects.next_round)]
    lines += [f"never: {one}" for one in effects.never]
    return Done(row, f"{row} is changed. {'; '.join(lines)}")


def _preview_change(call: Call) -> editing.Effects:
    caller = call.caller
    return editing.preview_change(
        request=call.row,
        changes=call.values,
        actor=caller.actor,
        on_behalf=caller.operates,
        groups=caller.groups,
    )


def _check_change(call: Call) -> None:
    """Below operators only the priority may be changed, up to a limit; drafts are edited freely."""
    if call.caller.operates or call.row.status == S.NEW:
        return
    if set(call.values) != {"priority"}:
        raise NotAllowed("Requestors may change the priority only", cure="Ask an operator")
    if call.values["priority"] > settings.REQUESTOR_MAX_PRIORITY:
        raise NotAllowed(
            f"Requestors may set priorities up to {settings.REQUESTOR_MAX_PRIORITY}", cure="Ask an operator"
        )


def _may_become(status: RequestStatus) -> Callable[[Request], bool]:
    return lambda row: may_move(S(row.status), status)


REQUEST_OPERATIONS = (
    Operation(
        target=REQUEST,
        name="submit",
        label="Submit",
        effect="The draft is submitted unchanged. Its document cannot be edited any more.",
        run=_calls(drafting.submit_draft, "Submitted: its input is being resolved."),
        role=Role.REQUESTOR,
        allows=lambda row: row.status == S.NEW,
        allowed_in="new",
        problems=(409, 503),
        affects=affected_by,
        icon="send",
        weight=Weight.USUAL,
    ),
    Operation(
        target=REQUEST,
        name="release",
        label="Release",
        effect="The request waits for admission and continues with the unfinished work. Finished groups are"
        " kept.",
        input=ReleaseInput,
        run=_release,
        preview=_preview_release,
        render_preview=_render_preview,
        allows=lambda row: row.status == S.HELD,
        allowed_in="held",
        problems=(409, 503),
        icon="play_arrow",
        weight=Weight.USUAL,
        bulk=True,
    ),
    Operation(
        target=REQUEST,
        name="rescue",
        label="Rescue",
        effect="The last DAG is submitted again as it is. Finished groups are kept. It counts as a rescue.",
        run=_rescue,
        allows=lambda row: row.status == S.HELD,
        allowed_in="held",
        checks_version=False,
        affects=affected_by,
        icon="healing",
        bulk=True,
    ),
    Operation(
        target=REQUEST,
        name="stop",
        label="Stop",
        effect="Jobs leave the queue and finished work is kept. The request then resumes, unless it is to"
        " stay held.",
        input=StopInput,
        run=_stop,
        allows=stopping.can_stop,
        allowed_in="while anything runs or waits",
        problems=(409, 503),
        affects=affected_by,
        icon="pause",
        bulk=True,
    ),
    Operation(
        target=REQUEST,
        name="edit",
        label="Edit",
        effect="Priority, sites, memory or throttles change. Of a draft, any field of the document.",
        input=ChangeInput,
        run=_change,
        role=Role.REQUESTOR,
        method="PATCH",
        path="",
        preview=_preview_change,
        preview_body=body_of(editing.Effects),
        body=RequestDetail,
        render=lambda call, done: render_detail(done.row),
        guard=_check_change,
        initial=editing.present_values,
        allows=lambda row: row.status not in TERMINAL,
        allowed_in="until it has ended",
        icon="edit",
        bulk=True,
    ),
    Operation(
        target=REQUEST,
        name="restart",
        label="Restart",
        effect="The request ends and the same work starts from the beginning as its next version, with the"
        " operator decisions made so far.",
        input=RestartInput,
        run=_restart,
        preview=_preview_restart,
        preview_body=body_of(restarting.RestartPreview),
        body=RestartBody,
        render=lambda call, done: (
            RestartBody(
                {
                    "previous": call.row,
                    "current": done.row,
                    "output_datasets": done.row.workflow.output_datasets,
                }
            ).data
        ),
        status=201,
        allows=lambda row: row.status != S.NEW,
        allowed_in="every status except new",
        problems=(409, 503),
        icon="restart_alt",
        weight=Weight.CAREFUL,
        bulk=True,
    ),
    Operation(
        target=REQUEST,
        name="fail",
        label="Fail",
        effect="The request ends as failed: its jobs are removed, its outputs are invalidated in DBS and"
        " their rules deleted in Rucio. May be repeated.",
        run=_calls(failing.fail_request, "Failed: its outputs are being invalidated.", dated=True),
        allows=_may_become(S.FAILED),
        allowed_in="until it has ended",
        problems=(409, 503),
        affects=affected_by,
        icon="dangerous",
        weight=Weight.FINAL,
        bulk=True,
    ),
    Operation(
        target=REQUEST,
        name="fail-files",
        label="Fail files",
        effect="Input files that are not processed are excluded, by state or by name. The request continues"
        " without them.",
        input=FailFilesInput,
        run=_fail_files,
        allows=lambda row: row.status not in TERMINAL,
        allowed_in="until it has ended",
        problems=(409, 503),
        affects=affected_by,
        icon="block",
        weight=Weight.CAREFUL,
    ),
    Operation(
        target=REQUEST,
        name="abort",
        label="Abort",
        effect="The request ends for good and its jobs are removed. Registered outputs stay as they are.",
        run=_calls(stopping.abort_request, "Aborted: its jobs are being removed."),
        role=Role.REQUESTOR,
        allows=_may_become(S.ABORTED),
        allowed_in="until it has ended",
        problems=(409, 503),
        affects=affected_by,
        icon="cancel",
        weight=Weight.FINAL,
        bulk=True,
    ),
    Operation(
        target=REQUEST,
        name="share",
        label="Share outputs",
        effect="The request may write into output datasets that belong to another request, or that DBS has"
        " already. Then submit it, if it is a draft, or release it.",
        input=ShareInput,
        run=_calls(
            owning.share_outputs,
            "Sharing is allowed: a draft can be submitted now, a held request released.",
            dated=True,
        ),
        allows=lambda row: row.status not in TERMINAL,
        allowed_in="until it has ended",
        problems=(409, 503),
        affects=affected_by,
        icon="share",
        weight=Weight.CAREFUL,
    ),
    Operation(
        target=REQUEST,
        name="invalidate",
        label="Invalidate outputs",
        effect="The datasets of an ended request become INVALID in DBS and lose their rules in Rucio. Its"
        " status stays. May be repeated.",
        run=_calls(failing.invalidate_request, "Its outputs are being invalidated.", dated=True),
        allows=lambda row: row.status in TERMINAL,
        allowed_in="after it has ended",
        problems=(409, 503),
        affects=affected_by,
        icon="delete",
        weight=Weight.FINAL,
    ),
)
BY_NAME = {one.name: one for one in REQUEST_OPERATIONS}
RESCUE_DAG = Operation(
    target=DAG_TARGET,
    name="rescue",
    label="Rescue",
    effect="The held request is queued with a rescue of this DAG. Finished groups are kept.",
    run=_rescue_dag,
    status=201,
    body=DAGRow,
    render=lambda call, done: DAGRow(done.row).data,
    checks_version=False,
    in_console=False,  # the request's page has the button
)
