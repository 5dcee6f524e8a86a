"""Merged files are recorded once, registered once, protected before anything else; against the lab's CMS."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from typing import Any

import pytest
import requests
from django.utils import timezone

from dags_app.adapters import dbs, rucio
from dags_app.models import MergeGroup, Workflow
from dags_app.planning.names import group_name, merged_id
from dags_app.planning.types import SitePool
from dags_app.services import ledger, production
from dags_app.states import FileState, GroupStatus
from outputs_app.models import OutputBlock, OutputFile
from outputs_app.selectors import unannounced
from outputs_app.services import advance_block, close_blocks, record_group
from sandbox.manifest import GroupManifest, MergedFile, Metrics

pytestmark = pytest.mark.django_db
LAB = os.environ.get("WMS2_LAB_CMS_URL", "")


@pytest.fixture
def group(workflow: Workflow, sites: SitePool) -> MergeGroup:
    dag = production.plan_round(workflow=workflow, sites=sites, priority=0)
    first: MergeGroup = dag.round.groups.order_by("index")[0]
    first.status = GroupStatus.DONE
    first.save()
    return first


@pytest.fixture
def faults() -> Iterator[Any]:
    def install(*wanted: dict[str, Any]) -> None:
        answer = requests.put(f"{LAB}/lab/faults", json=list(wanted), timeout=10)
        assert answer.status_code < 300, answer.text

    yield install
    install()


def manifest_of(group: MergeGroup, workflow: Workflow, *, site: str = "T1_US_FNAL") -> GroupManifest:
    dataset = workflow.output_datasets[0]
    name = merged_id(str(workflow.pk), round_number=0, group=group.index, dataset=dataset)
    parents = tuple(
        group.round.files.filter(first_group__lte=group.index, last_group__gte=group.index).values_list(
            "lfn", flat=True
        )
    )
    return GroupManifest(
        workflow_id=str(workflow.pk),
        round=0,
        group=group_name(group.index),
        site=site,
        jobs=group.jobs,
        events_read=group.input_events,
        events_written=group.input_events,
        outputs=(
            MergedFile(
                dataset=dataset,
                lfn=f"/store/data/{name}.root",
                size_bytes=1234,
                adler32="0123abcd",
                events=group.input_events,
                lumis={7: [[1, 4]]},
                parents=parents,
            ),
        ),
        metrics=Metrics(0.1, 50, 1.0, 0.9, group.jobs, 10.0),
        pilot=None,
    )


def record(group: MergeGroup, workflow: Workflow) -> bool:
    return record_group(
        group=group, manifest=manifest_of(group, workflow), rse="T1_US_FNAL_Disk", now=timezone.now()
    )


def walk(block: OutputBlock) -> None:
    """Advance the block as long as its status changes, as the sweep does."""
    for _ in range(5):
        advance_block(block.pk)
    block.refresh_from_db()


def test_a_group_is_credited_once_however_often_it_is_read(group: MergeGroup, workflow: Workflow) -> None:
    assert record(group, workflow)
    assert not record(group, workflow)
    group.refresh_from_db()
    workflow.refresh_from_db()
    assert group.status == GroupStatus.COLLECTED
    assert OutputFile.objects.filter(group=group).count() == 1
    assert workflow.produced_events == group.input_events
    processed = workflow.input_files.filter(state=FileState.PROCESSED)
    assert sum(file.events for file in processed) == group.input_events > 0


def test_a_closed_round_returns_files_that_were_not_credited(group: MergeGroup, workflow: Workflow) -> None:
    record(group, workflow)
    production.resolve_round(round_=group.round, now=timezone.now())
    states = set(workflow.input_files.values_list("state", flat=True))
    assert states == {FileState.PROCESSED, FileState.ATTEMPTED}
    assert "not processed yet" in ledger.work_left(workflow=workflow)


def test_a_block_is_registered_protected_and_announced(group: MergeGroup, workflow: Workflow) -> None:
    record(group, workflow)
    close_blocks(workflow=workflow, now=timezone.now())
    block = OutputBlock.objects.get(dataset__workflow=workflow)
    assert unannounced(workflow=workflow)
    walk(block)
    assert (block.status, unannounced(workflow=workflow)) == ("announced", "")
    assert [file.lfn for file in dbs().block_files(block.block_name)] == [block.files.get().lfn]
    rule = rucio().rule(block.rules.get(kind="source").rule_id)
    assert rule is not None
    assert (rule.rse_expression, rule.state) == ("T1_US_FNAL_Disk", "OK")


def test_walking_the_pipeline_twice_registers_once(group: MergeGroup, workflow: Workflow) -> None:
    record(group, workflow)
    block = OutputBlock.objects.get(dataset__workflow=workflow)
    walk(block)
    OutputBlock.objects.filter(pk=block.pk).update(status="pending")  # as if nothing had been recorded
    walk(block)
    assert block.status == "announced"
    assert len(dbs().block_files(block.block_name)) == 1
    assert block.rules.count() == 1


@pytest.mark.parametrize(("service", "status"), [("dbs", "checked"), ("rucio", "dbs_registered")])
def test_a_service_that_is_down_is_waited_for_and_seen(
    group: MergeGroup, workflow: Workflow, faults: Any, service: str, status: str
) -> None:
    record(group, workflow)
    block = OutputBlock.objects.get(dataset__workflow=workflow)
    faults(
        {
            "service": service,
            "method": "POST",
            "path_regex": ".*",
            "body_regex": re.escape(block.block_name),  # not those of other tests on the same services
            "kind": "status",
            "status": 503,
            "times": None,
        }
    )
    advance_block(block.pk)
    block.refresh_from_db()
    assert block.status == status
    assert (block.attempt, block.owner) == (1, "")
    assert block.last_error
    assert block.next_check_at > timezone.now()
    faults()
    walk(block)
    assert (block.status, block.last_error) == ("announced", "")


def test_a_success_that_reports_an_error_is_not_done_twice(
    group: MergeGroup, workflow: Workflow, faults: Any
) -> None:
    record(group, workflow)
    block = OutputBlock.objects.get(dataset__workflow=workflow)
    faults(
        {
            "service": "dbs",
            "method": "POST",
            "path_regex": "bulkblocks",
            "body_regex": re.escape(block.block_name),
            "kind": "success_then_500",
            "times": 1,
        }
    )
    walk(block)
    assert block.status == "announced"
    assert len(dbs().block_files(block.block_name)) == 1
