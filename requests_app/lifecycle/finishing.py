"""Finish the outputs of a request: watch its blocks, compare with DBS and Rucio, announce."""

from __future__ import annotations

from datetime import datetime, timedelta

from django.conf import settings

from dags_app.pull.patterns import only_scratch
from dags_app.pull.selectors import unconfirmed_uploads
from dags_app.services.ledger import gap_of
from outputs_app import services as outputs
from outputs_app.selectors import summary, troubles
from requests_app.lifecycle import gates
from requests_app.lifecycle.outcome import Move, Outcome, Wait, hold, stop_at
from requests_app.lifecycle.output_gates import output_check
from requests_app.lifecycle.ownership_gates import announcement, ownership, unfinished_workflows
from requests_app.lifecycle.snapshot import Snapshot
from requests_app.models import Request
from requests_app.services.alerts import close_others, raise_alert
from requests_app.states import RequestStatus as S
from wms2_project.words import counted

FAILING = "outputs_failing"
MAX_LISTED = 100


def finish(snapshot: Snapshot) -> Outcome:
    """Finish the outputs of a request that has no work left. Complete it, wait, or hold it."""
    workflow = snapshot.workflow
    outputs.close_blocks(workflow=workflow, now=snapshot.now)
    blocked = gates.blocking_gate(snapshot)
    if blocked:
        return stop_at(blocked)
    done = summary(workflow=workflow)
    if not done.files and not only_scratch(workflow):
        return hold("the request produced no output files")
    compared = outputs.compare_outputs(
        workflow=workflow, since=snapshot.request.status_since, seconds=settings.COMPARE_LOOK_SEC
    )
    if compared.differences:
        differences = [str(difference) for difference in compared.differences]
        found = counted(len(differences), "difference")
        message = f"{found} between the WMS2 database and DBS or Rucio, the first is: {differences[0]}"
        return hold(message, differences=differences[:MAX_LISTED])
    if compared.blocks_left:
        return Wait(
            seconds=0, why=f"comparing outputs with DBS and Rucio: {compared.blocks_left} blocks left"
        )
    outputs.announce_datasets(workflow=workflow, unfinished=unfinished_workflows(), now=snapshot.now)
    made = f"{done.events} events in {done.files} files, {done.blocks} blocks announced"
    if not done.files:
        made = "every file is processed; all outputs are on scratch storage"
    waits, gap = announcement(snapshot), gap_of(workflow=workflow)
    left = unconfirmed_uploads(workflow)
    lost = f"{counted(left, 'upload')} not confirmed and possibly still on storage" if left else ""
    parts = (made, waits.detail if waits.blocks else "", str(gap or ""), lost)
    return Move(S.COMPLETED, "; ".join(part for part in parts if part))


def announce_shared(*, now: datetime) -> None:
    """Announce datasets of completed requests once no other request writes into them."""
    completed = Request.objects.filter(status=S.COMPLETED).values("workflow")
    outputs.announce_shared(completed=completed, unfinished=unfinished_workflows(), now=now)


def hold_for_outputs(snapshot: Snapshot) -> Outcome | None:
    """Hold the request if output blocks have been failing for too long, if merged files are not what their
    jobs reported, or if it does not own an output dataset.

    Running jobs continue, and their outputs are still collected. A release restarts the time limit.
    """
    for gate in (ownership(snapshot), output_check(snapshot)):
        if gate.blocks and gate.needs_operator:
            return stop_at(gate)
    trouble = snapshot.trouble
    if trouble is None:
        return None
    released = snapshot.request.transitions.filter(from_status=S.HELD).last()
    begun = max(trouble.since, released.at) if released else trouble.since
    if (snapshot.now - begun).total_seconds() < settings.OUTPUT_HOLD_AFTER_SEC:
        return None
    blocks = counted(trouble.blocks, "output block")
    message = f"{blocks} failing since {trouble.since:%F %R} UTC: {trouble.message}"
    return hold(message, blocks=trouble.blocks, since=trouble.since.isoformat(), service_says=trouble.message)


def watch_outputs(*, now: datetime) -> None:
    """Open an alert while output blocks keep failing; close it when they recover.

    Ended requests are included, because their outputs must still be invalidated or protected.
    """
    long_ago = now - timedelta(seconds=settings.OUTPUT_ALERT_AFTER_SEC)
    lasting = {workflow: trouble for workflow, trouble in troubles().items() if trouble.since <= long_ago}
    concerned = list(Request.objects.filter(workflow__in=lasting))
    for request in concerned:
        trouble = lasting[request.workflow_id]
        message = f"{counted(trouble.blocks, 'output block')} failing repeatedly: {trouble.message}"
        raise_alert(request=request, kind=FAILING, message=message)
    close_others({FAILING: concerned})
