"""A request's outputs: watched, and in the end announced and compared."""

from __future__ import annotations

from datetime import datetime, timedelta

from django.conf import settings

from dags_app.services.ledger import gap_of
from outputs_app import services as outputs
from outputs_app.selectors import summary, troubles
from requests_app.alerts import close_others, raise_alert
from requests_app.lifecycle import gates
from requests_app.lifecycle.look import Look
from requests_app.lifecycle.outcome import Move, Outcome, Wait, hold, stop_at
from requests_app.lifecycle.ownership import announcement, ownership, unfinished_workflows
from requests_app.models import Request
from requests_app.states import RequestStatus as S

FAILING = "outputs_failing"
MAX_TOLD = 100


def finish(look: Look) -> Outcome:
    """Nothing is left to run: see the outputs to their end."""
    workflow = look.workflow
    outputs.close_blocks(workflow=workflow, now=look.now)
    blocked = gates.in_the_way(look)
    if blocked:
        return stop_at(blocked)
    done = summary(workflow=workflow)
    if not done.files:
        return hold("nothing was produced, so there is nothing to complete")
    compared = outputs.compare_outputs(
        workflow=workflow, since=look.request.status_since, seconds=settings.COMPARE_LOOK_SEC
    )
    if compared.differences:
        differences = [str(difference) for difference in compared.differences]
        told = f"the catalogues disagree with us in {len(differences)} things, the first: {differences[0]}"
        return hold(told, differences=differences[:MAX_TOLD])
    if compared.blocks_left:
        return Wait(
            seconds=0, why=f"{compared.blocks_left} blocks are still to be compared with DBS and Rucio"
        )
    outputs.announce_datasets(workflow=workflow, unfinished=unfinished_workflows(), now=look.now)
    made = f"{done.events} events in {done.files} files, {done.blocks} blocks announced"
    waits, gap = announcement(look), gap_of(workflow=workflow)
    parts = (made, waits.detail if waits.blocks else "", str(gap or ""))
    return Move(S.COMPLETED, "; ".join(part for part in parts if part))


def announce_shared(*, now: datetime) -> None:
    """Announce what completed requests wrote into datasets that others wrote into until now."""
    completed = Request.objects.filter(status=S.COMPLETED).values("workflow")
    outputs.announce_shared(completed=completed, unfinished=unfinished_workflows(), now=now)


def hold_for_outputs(look: Look) -> Outcome | None:
    """Held when its outputs have been failing for too long, with the service's own message, or at once when
    a dataset turns out not to be its own.

    What runs goes on, and what it produces is still collected. A person who releases the request gives it
    the whole time again.
    """
    owned = ownership(look)
    if owned.blocks and owned.by_hand:
        return stop_at(owned)
    trouble = look.trouble
    if trouble is None:
        return None
    released = look.request.transitions.filter(from_status=S.HELD).last()
    begun = max(trouble.since, released.at) if released else trouble.since
    if (look.now - begun).total_seconds() < settings.OUTPUT_HOLD_AFTER_SEC:
        return None
    told = f"{trouble.blocks} output blocks keep failing since {trouble.since:%F %R}: {trouble.message}"
    return hold(told, blocks=trouble.blocks, since=trouble.since.isoformat(), service_says=trouble.message)


def watch_outputs(*, now: datetime) -> None:
    """Say it early when blocks keep failing, and take it back when they go on.

    Whatever the status of the request: what an ended one leaves outside must still be taken back or kept.
    """
    long_ago = now - timedelta(seconds=settings.OUTPUT_ALERT_AFTER_SEC)
    lasting = {workflow: trouble for workflow, trouble in troubles().items() if trouble.since <= long_ago}
    concerned = list(Request.objects.filter(workflow__in=lasting))
    for request in concerned:
        trouble = lasting[request.workflow_id]
        told = f"{trouble.blocks} output blocks keep failing: {trouble.message}"
        raise_alert(request=request, kind=FAILING, message=told)
    close_others(kind=FAILING, than=concerned)
