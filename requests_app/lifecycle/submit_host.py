"""The submit host, seen from above: room for further DAGs."""

from __future__ import annotations

from dags_app.services.space import describe, short_of_space
from requests_app.alerts import raise_site_alerts
from requests_app.lifecycle.gate import Gate, Verdict, passed
from requests_app.lifecycle.look import Look
from requests_app.models import Request
from requests_app.states import SWEPT
from wms2_project.waiting import SPACE, wake_waiting

NO_SPACE = "no_space"
SUBMIT_HOST = "submit host"  # what the alert is about


def space(look: Look) -> Gate:
    """Does the submit host have room for another DAG? One that is in the queue goes on."""
    if look.queued_dag is not None:
        return passed(SPACE, "its DAG is in the queue")
    short = short_of_space()
    if not short:
        return passed(SPACE, "the submit host has room for a DAG")
    return Gate(
        SPACE,
        Verdict.BLOCK,
        f"the submit host has too little room: {describe(short)}",
        {"directories": [one.as_json() for one in short]},
        since=look.request.status_since,
        remedy="Free space on the submit host; it goes on by itself",
    )


def watch_space() -> None:
    """Raise an alert while the submit host has too little room for DAGs; then wake what waited for it."""
    short = short_of_space()
    messages = {SUBMIT_HOST: f"{describe(short)}; no DAG is planned or submitted"} if short else {}
    raise_site_alerts(kind=NO_SPACE, messages=messages)
    if not short and Request.objects.filter(status__in=sorted(SWEPT), wait_gate=SPACE).exists():
        wake_waiting(SPACE)
