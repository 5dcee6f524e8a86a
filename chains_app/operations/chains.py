"""Operations on chains, their steps, and announcements."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from chains_app.api.inputs import AnnouncementInput, StepInput
from chains_app.api.serializers import AnnouncementRow, ChainRow
from chains_app.models import Chain
from chains_app.selectors.chains import chain_by_number
from chains_app.services import replaying, steering
from chains_app.services.announcing import ANNOUNCED, announce
from chains_app.states import ENDED, STEP_ENDED, AnnouncementStatus, StepStatus
from wms2_project.api.bodies import body_of, render
from wms2_project.operations import Call, Done, Operation, Run, Target, Weight
from wms2_project.words import counted

CHAIN = Target(
    kind="chain",
    route="chains/<int:number>",
    find=chain_by_number,
    key=int,
    body=ChainRow,
    render=lambda call, done: ChainRow(done.row).data,
)
ANNOUNCEMENT = Target(
    kind="announcement",
    route="announcements/<int:announcement_id>",
    find=replaying.announcement_by_id,
    key=int,
    body=AnnouncementRow,
    render=lambda call, done: AnnouncementRow(done.row).data,
)
DEAD_LETTERS = Target(
    kind="announcement",
    route="announcements",
    body=body_of(replaying.Replayed),
    render=lambda call, done: render(done.row),
)
DATASET = Target(
    kind="dataset",
    route="datasets",
    body=AnnouncementRow,
    render=lambda call, done: AnnouncementRow(done.row).data,
)


def _cancel(call: Call) -> Done:
    row = steering.cancel_chain(chain=call.row, **call.signed)
    return Done(row, f"{row} is cancelled; its datasets are kept.")


def _on_step(service: Callable[..., Chain], message: str) -> Run:
    def run(call: Call) -> Done:
        row = service(chain=call.row, step=call.values["step"], **call.signed)
        return Done(row, message.format(step=call.values["step"]))

    return run


def _has_step(*statuses: StepStatus) -> Callable[[Any], bool]:
    return lambda row: row.status not in ENDED and row.steps.filter(status__in=statuses).exists()


def _first_step(*statuses: StepStatus) -> Callable[[Any], dict[str, str]]:
    def initial(row: Chain) -> dict[str, str]:
        step = row.steps.filter(status__in=statuses).first()
        return {"step": "" if step is None else str(step)}

    return initial


def _step_operation(
    name: str, label: str, effect: str, service: Callable[..., Chain], message: str, *,
    statuses: tuple[StepStatus, ...], allowed_in: str, icon: str, allows: Callable[[Any], bool] | None = None,
) -> Operation:  # fmt: skip
    return Operation(
        target=CHAIN,
        name=name,
        label=label,
        effect=effect,
        input=StepInput,
        run=_on_step(service, message),
        allows=allows or _has_step(*statuses),
        allowed_in=allowed_in,
        initial=_first_step(*statuses),
        checks_version=False,
        icon=icon,
    )


_NOT_DONE = tuple(one for one in StepStatus if one not in STEP_ENDED)

CHAIN_OPERATIONS = (
    Operation(
        target=CHAIN,
        name="cancel",
        label="Cancel",
        effect="Its running requests are aborted, and no further step starts. No dataset is removed.",
        run=_cancel,
        allows=lambda row: row.status not in ENDED,
        allowed_in="while it has not ended",
        checks_version=False,
        icon="cancel",
        weight=Weight.FINAL,
        bulk=True,
    ),
    _step_operation(
        "retry", "Retry a step", "A held step starts again, with a new request if it had one.",
        steering.retry_step, "{step} starts again.", statuses=(StepStatus.HELD,),
        allowed_in="while a step is held and its request, if any, has ended", icon="replay",
    ),
    _step_operation(
        "skip", "Skip a step", "The step is not run, its request is aborted, and its outputs are null.",
        steering.skip_step, "{step} is skipped.", statuses=_NOT_DONE,
        allowed_in="while a step is not done", icon="skip_next",
    ),
    _step_operation(
        "approve", "Approve a step", "A step that waits for approval starts.", steering.approve_step,
        "{step} is approved.", statuses=(StepStatus.DEFINED,), allowed_in="while a step waits for approval",
        icon="check", allows=lambda row: row.status not in ENDED and bool(steering.needs_approval(row)),
    ),
    _step_operation(
        "reject", "Reject a step", "A step that waits for approval is held. Then retry or skip it.",
        steering.reject_step, "{step} is rejected and held.", statuses=(StepStatus.DEFINED,),
        allowed_in="while a step waits for approval", icon="block",
        allows=lambda row: row.status not in ENDED and bool(steering.needs_approval(row)),
    ),
)  # fmt: skip


def _replay(call: Call) -> Done:
    row = replaying.replay_announcement(announcement=call.row, **call.signed)
    started = row.chains.count()
    return Done(
        row, f"It started {counted(started, 'chain')}." if started else f"Still a dead letter: {row.reason}"
    )


def _drop(call: Call) -> Done:
    return Done(replaying.drop_announcement(announcement=call.row, **call.signed), "It is dropped.")


def _replay_all(call: Call) -> Done:
    found = replaying.Replayed(replaying.replay_matching(**call.signed))
    return Done(found, f"{counted(found.replayed, 'dead letter')} replayed.")


def _announce(call: Call) -> Done:
    values = {"name": "", **call.values}
    row = announce(actor=call.caller.actor, reason=call.reason or ANNOUNCED, **values)
    return Done(row, row.reason or f"It started {counted(row.chains.count(), 'chain')}.")


_DEAD = {
    "allows": lambda row: row.status == AnnouncementStatus.DEAD_LETTER,
    "allowed_in": "while it is a dead letter",
}

ANNOUNCEMENT_OPERATIONS = (
    Operation(
        target=DATASET,
        name="announce",
        label="Announce a dataset",
        effect="The dataset starts a chain of every actual template it matches, once per uid.",
        input=AnnouncementInput,
        run=_announce,
        path="",
        status=201,
        problems=(),
        checks_version=False,
        in_console=False,
    ),
    Operation(
        target=ANNOUNCEMENT,
        name="replay",
        label="Replay",
        effect="The dead letter is matched again with the templates that are actual now.",
        run=_replay,
        checks_version=False,
        icon="replay",
        weight=Weight.USUAL,
        bulk=True,
        **_DEAD,  # type: ignore[arg-type]
    ),
    Operation(
        target=ANNOUNCEMENT,
        name="drop",
        label="Drop",
        effect="The dead letter is kept as dropped and is not replayed.",
        run=_drop,
        checks_version=False,
        icon="delete",
        bulk=True,
        **_DEAD,  # type: ignore[arg-type]
    ),
    Operation(
        target=DEAD_LETTERS,
        name="replay_matching",
        label="Replay all that match now",
        effect="Every dead letter that would start a chain now is replayed.",
        run=_replay_all,
        path="replay",
        checks_version=False,
        icon="replay",
        problems=(),
    ),
)
