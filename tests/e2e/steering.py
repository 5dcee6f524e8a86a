"""Helpers of tests that control running requests."""

from __future__ import annotations

from collections import Counter
from typing import Any

from dags_app.models import DAG, InputFile, MergeGroup, Workflow
from outputs_app.models import OutputFile
from requests_app.models import Alert
from tests.e2e.conftest import Json, Stack

# Long enough to act on running jobs: a quarter of a minute per job, mostly waiting.
SLOW = {"cpu_sec_per_event": 0.002, "output_kb_per_event": 0.0625, "wait_sec_per_event": 0.4}


def slow(document: Json, **changes: Any) -> Json:
    return document | {"PayloadConfig": {"toy": SLOW}, "EventsPerJob": 20} | changes


def newest(name: str) -> DAG:
    return DAG.objects.filter(workflow__request_name=name).order_by("-created_at")[0]


def groups(name: str) -> Counter[str]:
    rows = MergeGroup.objects.filter(round__workflow__request_name=name)
    return Counter(rows.values_list("status", flat=True))


def assert_every_event_once(stack: Stack, name: str) -> None:
    workflow = Workflow.objects.get(request_name=name)
    wanted: Counter[tuple[int, int, int]] = Counter()
    for file in InputFile.objects.filter(workflow=workflow):
        wanted += stack.events_in(file.lfn, file.locations[0].removesuffix("_Disk"))
    written: Counter[tuple[int, int, int]] = Counter()
    for merged in OutputFile.objects.filter(block__dataset__workflow=workflow).select_related("block"):
        written += stack.events_in(merged.lfn, merged.block.site)
    assert written == wanted


def open_alerts(name: str) -> list[str]:
    rows = Alert.objects.filter(request__request_name=name, closed_at__isnull=True)
    return list(rows.values_list("kind", flat=True))
