"""Low filter yield: hold a Monte Carlo request whose filter passes far fewer events than declared."""

from __future__ import annotations

from dags_app.models import Workflow
from dags_app.planning.yields import find_poor_yield
from dags_app.services import production
from dags_app.services.estimating import round_yields
from requests_app.lifecycle.outcome import Move, hold


def hold_for_yield(workflow: Workflow) -> Move | None:
    """Return a hold if the newest rounds wrote far fewer events than planned, else None.

    A release plans the next round regardless; only the yield of that round can hold the request again.
    """
    if workflow.has_ledger:
        return None
    workflow.refresh_from_db(fields=["produced_events"])
    poor = find_poor_yield(round_yields(workflow), declared=workflow.filter_efficiency)
    if poor is None or workflow.produced_events >= (workflow.total_events or 0):
        return None
    return hold(
        f"{poor.written} of {poor.generated} generated events passed the filter, {poor.expected:.0f} were"
        f" expected: check the generator and filter_efficiency {workflow.filter_efficiency:g}",
        rounds=poor.rounds,
        events_generated=poor.generated,
        events_written=poor.written,
        events_expected=round(poor.expected),
        filter_efficiency_declared=workflow.filter_efficiency,
        filter_efficiency_measured=poor.written / poor.generated,
        next_round_events=production.event_budget(workflow).events,
    )
