"""Free space on the submit host: gate and alert."""

from __future__ import annotations

from dags_app.services.disk_space import describe, short_of_space
from requests_app.lifecycle.gate_result import Gate, Verdict, passed
from requests_app.lifecycle.snapshot import Snapshot
from requests_app.models import Request
from requests_app.services.alerts import raise_site_alerts
from requests_app.states import SWEPT
from wms2_project.wakeups import SPACE, wake_waiting

NO_SPACE = "no_space"
SUBMIT_HOST = "submit host"  # subject of the alert


def space(snapshot: Snapshot) -> Gate:
    """Block while the submit host has too little free space for a DAG. Queued DAGs are unaffected."""
    if snapshot.queued_dag is not None:
        return passed(SPACE, "the DAG is in the queue")
    short = short_of_space()
    if not short:
        return passed(SPACE, "the submit host has enough free space")
    return Gate(
        SPACE,
        Verdict.BLOCK,
        f"the submit host has too little free space: {describe(short)}",
        {"directories": [one.as_json() for one in short]},
        since=snapshot.request.status_since,
        remedy="Free space on the submit host. The request then continues automatically",
    )


def watch_space() -> None:
    """Open an alert while the submit host has too little free space; then wake the requests that waited."""
    short = short_of_space()
    messages = {SUBMIT_HOST: f"{describe(short)}; no DAG is planned or submitted"} if short else {}
    raise_site_alerts(kind=NO_SPACE, messages=messages)
    if not short and Request.objects.filter(status__in=sorted(SWEPT), wait_gate=SPACE).exists():
        wake_waiting(SPACE)
