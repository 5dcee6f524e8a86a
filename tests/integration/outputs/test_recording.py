"""Merged files into blocks: one dataset, one site, few blocks however small the groups."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta
from pathlib import Path
from threading import Event
from typing import Any

import pytest
from django.db import connection
from django.utils import timezone

from dags_app.models import MergeGroup, Round, Workflow
from dags_app.planning.names import group_name
from dags_app.states import GroupStatus
from outputs_app import services as outputs
from outputs_app.models import OutputBlock, OutputDataset
from outputs_app.services import advance_block, close_blocks, record_group
from requests_app.models import Request
from requests_app.services import outputs as collection
from requests_app.services.failing import fail_request
from requests_app.services.stopping import abort_request
from sandbox.manifest import GroupManifest, MergedFile, Metrics
from tests.integration.factories import make_dag, make_group, make_round, make_site
from tests.integration.outputs.blocks import walk
from tests.waiting import another_session_waits, until

pytestmark = pytest.mark.django_db


@pytest.fixture
def round_(workflow: Workflow) -> Round:
    return make_round(workflow)


def manifest_of(group: MergeGroup, *, site: str) -> GroupManifest:
    """Return the manifest of a group that ended with one small file per dataset."""
    workflow = group.round.workflow
    outputs = tuple(
        MergedFile(
            dataset=dataset,
            lfn=f"/store/data/Lab/{workflow.pk}/{group.index}/{dataset.split('/')[-1]}.root",
            size_bytes=100,
            adler32="0123abcd",
            events=10,
            lumis={1: [[group.index + 1, group.index + 1]]},
            parents=(),
        )
        for dataset in workflow.output_datasets
    )
    return GroupManifest(
        workflow_id=str(workflow.pk), round=0, group=group_name(group.index), site=site, jobs=group.jobs,
        events_read=10, events_written=10, outputs=outputs, metrics=Metrics(0.1, 50, 1.0, 0.9, 4, 10.0),
        pilot=None,
    )  # fmt: skip


def finish(group: MergeGroup, *, site: str = "T1_US_FNAL", now: datetime | None = None) -> None:
    manifest = manifest_of(group, site=site)
    record_group(group=group, manifest=manifest, rse=f"{site}_Disk", now=now or timezone.now())


def blocks_of(workflow: Workflow) -> list[OutputBlock]:
    return list(OutputBlock.objects.filter(dataset__workflow=workflow).order_by("created_at"))


def test_many_small_groups_make_few_blocks(workflow: Workflow, round_: Round, settings: Any) -> None:
    settings.BLOCK_LINGER_SEC, settings.BLOCK_MAX_FILES = 3600, 8
    for _ in range(20):
        finish(make_group(round_))
    blocks = blocks_of(workflow)
    assert [block.files.count() for block in blocks] == [8, 8, 4]
    assert [block.closed_at is None for block in blocks] == [False, False, True]


def test_a_block_waits_for_company_and_is_registered_once_it_waited_long_enough(
    workflow: Workflow, round_: Round, settings: Any
) -> None:
    settings.BLOCK_LINGER_SEC = 3600
    finish(make_group(round_))
    [block] = blocks_of(workflow)
    advance_block(block.pk)
    block.refresh_from_db()
    assert (block.status, block.closed_at) == ("pending", None)
    assert timedelta(minutes=59) < block.next_check_at - timezone.now() < timedelta(minutes=61)
    finish(make_group(round_))
    assert block.files.count() == 2
    settings.BLOCK_LINGER_SEC = 0
    assert walk(block).status == "announced"
    finish(make_group(round_))
    assert len(blocks_of(workflow)) == 2, "a closed block takes no more files"


def test_blocks_are_per_dataset_and_site_and_all_close_at_the_end(
    workflow: Workflow, round_: Round, settings: Any
) -> None:
    settings.BLOCK_LINGER_SEC = 3600
    base = workflow.output_datasets[0]
    tiers = ("AOD", "MINIAOD", "NANOAOD", "DQMIO", "ALCARECO")
    workflow.output_datasets = [base.replace("/AOD", f"/{tier}") for tier in tiers]
    workflow.save()
    for site in ("T1_US_FNAL", "T2_CH_CERN", "T1_US_FNAL"):
        finish(make_group(round_), site=site)
    blocks = blocks_of(workflow)
    assert sorted(block.files.count() for block in blocks) == [1] * 5 + [2] * 5
    assert close_blocks(workflow=workflow, now=timezone.now()) == 10
    assert all(block.closed_at for block in blocks_of(workflow))


@pytest.mark.parametrize("end", [fail_request, abort_request])
def test_nothing_is_recorded_of_a_request_that_ended_while_its_group_was_read(
    end: Callable[..., Request], workflow: Workflow, round_: Round, monkeypatch: pytest.MonkeyPatch,
    settings: Any, tmp_path: Path,
) -> None:  # fmt: skip
    settings.SUBMIT_ROOT = str(tmp_path)
    request = Request.objects.get(workflow=workflow)
    dag, group, site = make_dag(round_), make_group(round_, status=GroupStatus.DONE), make_site()
    found = (group, manifest_of(group, site=site.name))
    monkeypatch.setattr(collection.manifests, "finished_groups", lambda dag: [found])

    def end_after_reading(name: str) -> None:
        if name == "collect.read":
            given = {"now": timezone.now()} if end is fail_request else {}
            end(request=request, actor="user:olga", reason="bad", **given)

    monkeypatch.setattr(collection, "failpoint", end_after_reading)
    collection.collect(dag, timezone.now())
    group.refresh_from_db()
    assert (blocks_of(workflow), group.status) == ([], GroupStatus.DONE)


@pytest.mark.django_db(transaction=True)
def test_failing_a_request_waits_for_the_group_being_recorded_and_withdraws_it(
    workflow: Workflow, round_: Round, monkeypatch: pytest.MonkeyPatch, settings: Any, tmp_path: Path
) -> None:
    settings.SUBMIT_ROOT = str(tmp_path)
    request = Request.objects.get(workflow=workflow)
    dag, group, site = make_dag(round_), make_group(round_, status=GroupStatus.DONE), make_site()
    found = (group, manifest_of(group, site=site.name))
    monkeypatch.setattr(collection.manifests, "finished_groups", lambda dag: [found])
    real, began = outputs.record_group, Event()

    def record_while_the_request_fails(**given: Any) -> bool:
        began.set()
        until(another_session_waits, why="no process waits for the group being recorded")
        return real(**given)

    def fail() -> None:
        began.wait(60)
        fail_request(request=request, actor="user:olga", reason="bad", now=timezone.now())
        connection.close()

    monkeypatch.setattr(outputs, "record_group", record_while_the_request_fails)
    with ThreadPoolExecutor() as pool:
        failing = pool.submit(fail)
        collection.collect(dag, timezone.now())
        failing.result(timeout=120)
    assert [block.status for block in blocks_of(workflow)] == ["invalidating"]
    assert OutputDataset.objects.get(workflow=workflow).status == "invalidated"
