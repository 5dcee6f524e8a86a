"""The finder of pull mode: counter files, outputs of another request, and files added to the input."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta
from itertools import islice
from typing import Any

from django.conf import settings
from django.db.models import Max, Q

from dags_app.models import InputFile, Workflow
from dags_app.pull.distances import ANYWHERE
from dags_app.pull.places import sync_places
from dags_app.services import input_files
from dags_app.services.ledger import tally
from outputs_app.models import OutputFile
from requests_app.models import Request
from requests_app.states import TERMINAL

BATCH = 5000
RUN = 1  # of generated events


def find_files(*, workflow: Workflow, now: datetime) -> int:
    """Add files of the workflow's input that are not in the ledger yet; return how many were added."""
    before = workflow.input_files.count()
    if workflow.input_from is not None:
        _take_outputs(workflow, workflow.input_from)
    elif workflow.generates:
        _make_counters(workflow)
    elif workflow.input_resolved_at is not None and is_followed(workflow=workflow, now=now):
        input_files.read_new_files(workflow=workflow)
    found = workflow.input_files.count() - before
    if found:
        tally(workflow=workflow)
    if workflow.input_resolved_at is None and (workflow.input_from_id is not None or workflow.generates):
        Workflow.objects.filter(pk=workflow.pk).update(input_resolved_at=now, located_at=now)
        workflow.refresh_from_db(fields=["input_resolved_at", "located_at"])
    sync_places(workflow=workflow)
    return found


def may_grow(*, workflow: Workflow, now: datetime) -> str:
    """Describe why further input may appear; empty if the input is complete."""
    if workflow.input_from_id is not None:
        producer = Request.objects.only("request_name", "status").get(workflow_id=workflow.input_from_id)
        return "" if producer.status in TERMINAL else f"outputs of {producer.request_name} may follow"
    if is_followed(workflow=workflow, now=now):
        return f"the input is followed until {workflow.follow_input_until:%F %R} UTC"
    return ""


def is_followed(*, workflow: Workflow, now: datetime) -> bool:
    """Return whether DBS and Rucio are still searched for new files."""
    return workflow.follow_input_until is not None and now < workflow.follow_input_until


def is_due(*, workflow: Workflow, now: datetime) -> bool:
    """Return whether the finder should search now. Outputs of another request are searched at every check."""
    if workflow.input_from_id is not None:
        return True
    if workflow.generates or not is_followed(workflow=workflow, now=now):
        return False
    age = timedelta(seconds=settings.LOCATION_MAX_AGE_SEC)
    return workflow.located_at is None or now - workflow.located_at >= age


def _take_outputs(workflow: Workflow, producer: Workflow) -> None:
    """Take the output files of the producer, without its logs."""
    known = workflow.input_files.values("lfn")
    made = OutputFile.objects.filter(
        block__dataset__workflow=producer, block__invalidated_at__isnull=True
    ).exclude(Q(lfn__in=known) | Q(block__dataset__dataset_name=producer.log_dataset or ""))
    rows = made.select_related("block").order_by("id").iterator(chunk_size=BATCH)
    _store(
        InputFile(
            workflow=workflow,
            lfn=file.lfn,
            block_name=file.block.block_name,
            size_bytes=file.size_bytes,
            events=file.events,
            adler32=file.adler32,
            lumis=file.lumis,
            locations=[file.block.rse],
        )
        for file in rows
    )


def _make_counters(workflow: Workflow) -> None:
    """Make counters with ascending numbers, each with event and lumi ranges of its own, once."""
    total = workflow.total_events or 0
    size = max(1, int(workflow.splitting_params.get("events_per_job") or 1))
    per_lumi = max(1, int(workflow.splitting_params.get("events_per_lumi") or size))
    lumis = -(-size // per_lumi)
    done = workflow.input_files.aggregate(last=Max("first_event"))["last"]
    first_event, first_lumi = workflow.next_first_event, workflow.next_first_lumi
    begun = 0 if done is None else (done - first_event) // size + 1
    numbers = range(begun, -(-total // size))
    _store(
        InputFile(
            workflow=workflow,
            lfn=f"/store/wms2/w{workflow.number}/{number + 1:09d}",
            size_bytes=0,
            events=min(size, total - number * size),
            first_event=first_event + number * size,
            lumis=[[RUN, first_lumi + number * lumis, first_lumi + (number + 1) * lumis - 1]],
            locations=[ANYWHERE],
        )
        for number in numbers
    )


def _store(rows: Iterable[Any]) -> None:
    left = iter(rows)
    while batch := list(islice(left, BATCH)):
        InputFile.objects.bulk_create(batch, ignore_conflicts=True)
