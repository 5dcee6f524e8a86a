"""Operations on the DAGMans of a DAG, on schedds and on quarantined copies of files."""

from __future__ import annotations

from datetime import timedelta
from uuid import UUID

from dags_app.api.serializers import QuarantineRow, ScheddDrainInput, ScheddRow
from dags_app.selectors import dag_by_id, schedd_by_name
from dags_app.services.control import Acted, DagAction, act_on_dag
from dags_app.services.quarantine import lift_quarantine, quarantined_by_id
from dags_app.services.schedds import drain_schedd, enable_schedd, fence_schedd
from dags_app.states import IN_QUEUE, ScheddStatus
from wms2_project.access.roles import Role
from wms2_project.api.bodies import body_of, render
from wms2_project.errors import NotAllowed
from wms2_project.operations import Call, Done, Operation, Run, Target, Weight

DAG_TARGET = Target(
    kind="dag",
    route="dags/<uuid:dag_id>",
    find=dag_by_id,
    key=UUID,
    body=body_of(Acted),
    render=lambda call, done: done.more,
)
SCHEDD_TARGET = Target(
    kind="schedd",
    route="schedds/<schedd_name:name>",
    find=schedd_by_name,
    body=ScheddRow,
    render=lambda call, done: ScheddRow(done.row).data,
)


def _check_own_site(call: Call) -> None:
    if not call.caller.operates and call.row.site not in call.caller.sites:
        raise NotAllowed(
            f"You are not an admin of {call.row.site}", cure="Ask one of its admins or an operator"
        )


QUARANTINE_TARGET = Target(
    kind="quarantine",
    route="quarantine/<int:replica_id>",
    find=quarantined_by_id,
    key=int,
    body=QuarantineRow,
    render=lambda call, done: QuarantineRow(done.row).data,
    guard=_check_own_site,
    guarded="below operators for copies at their own sites only",
)


def _acting(action: DagAction) -> Run:
    def run(call: Call) -> Done:
        acted = act_on_dag(dag=call.row, action=action, **call.signed)
        return Done(call.row, acted.message, render(acted))

    return run


def _drain(call: Call) -> Done:
    minutes = call.values["deadline_minutes"]
    deadline = call.now + timedelta(minutes=minutes) if minutes is not None else None
    row = drain_schedd(name=call.row.name, deadline=deadline, **call.signed)
    return Done(row, f"{row} takes no new DAGs.")


def _fence(call: Call) -> Done:
    row = fence_schedd(name=call.row.name, **call.signed)
    return Done(row, f"{row} is fenced; its DAGs resume elsewhere.")


def _enable(call: Call) -> Done:
    row = enable_schedd(name=call.row.name, **call.signed)
    return Done(row, f"{row} takes DAGs again.")


def _lift(call: Call) -> Done:
    lift_quarantine(replica=call.row, now=call.now, **call.signed)
    kept = f" Rucio keeps it as {call.row.declared_as}." if call.row.declared_as else ""
    return Done(call.row, f"Requests may read {call.row} again.{kept}")


QUARANTINE_OPERATIONS = (
    Operation(
        target=QUARANTINE_TARGET,
        name="lift",
        label="Lift the quarantine",
        effect="Requests may read this copy again from the next planning on. The declaration in Rucio stays.",
        run=_lift,
        role=Role.SITE_ADMIN,
        allows=lambda row: row.ended_at is None,
        allowed_in="while the copy is in quarantine",
        checks_version=False,
        icon="undo",
        bulk=True,
    ),
)
DAG_OPERATIONS = tuple(
    Operation(
        target=DAG_TARGET,
        name=action.value,
        label=action.value.capitalize(),
        effect=effect,
        run=_acting(action),
        allows=lambda dag: dag.status in IN_QUEUE,
        allowed_in="while the DAG is in a queue",
        problems=(409, 502, 503),
        checks_version=False,
        icon=icon,
        weight=weight,
    )
    for action, effect, icon, weight in (
        (
            DagAction.HOLD,
            "The outer and every inner DAGMan is held. Running jobs continue, and no new ones are submitted.",
            "pause",
            Weight.CAREFUL,
        ),
        (DagAction.RELEASE, "Every DAGMan that is held is released.", "play_arrow", Weight.USUAL),
        (
            DagAction.REMOVE,
            "The DAG and its jobs leave the queue and its request is held. Rescue files keep finished nodes.",
            "cancel",
            Weight.FINAL,
        ),
    )
)
SCHEDD_OPERATIONS = (
    Operation(
        target=SCHEDD_TARGET,
        name="drain",
        label="Drain",
        effect="The schedd gets no new DAGs. At the deadline, DAGs that still run there are stopped cleanly"
        " and resume elsewhere.",
        input=ScheddDrainInput,
        run=_drain,
        allows=lambda row: row.status == ScheddStatus.ENABLED,
        allowed_in="while the schedd is enabled",
        problems=(409, 503),
        checks_version=False,
        icon="block",
        weight=Weight.CAREFUL,
    ),
    Operation(
        target=SCHEDD_TARGET,
        name="fence",
        label="Fence",
        effect="You confirm that none of its jobs runs or will run again. Its DAGs end as stopped and resume"
        " elsewhere.",
        run=_fence,
        allows=lambda row: row.silent_since is not None and row.status != ScheddStatus.FENCED,
        allowed_in="while the schedd does not answer",
        problems=(409, 503),
        checks_version=False,
        icon="fence",
        weight=Weight.FINAL,
    ),
    Operation(
        target=SCHEDD_TARGET,
        name="enable",
        label="Enable",
        effect="The schedd gets new DAGs again. A fenced schedd must answer; DAGs that came back with it are"
        " removed.",
        run=_enable,
        allows=lambda row: row.status != ScheddStatus.ENABLED,
        allowed_in="while the schedd is drained or fenced",
        problems=(409, 503),
        checks_version=False,
        icon="check",
        weight=Weight.USUAL,
    ),
)
