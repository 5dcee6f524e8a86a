"""Merged files into blocks: one dataset, one site, few blocks however small the groups."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pytest
from django.utils import timezone

from dags_app.models import MergeGroup, Round, Workflow
from dags_app.planning.names import group_name
from outputs_app.models import OutputBlock
from outputs_app.services import advance_block, close_blocks, record_group
from sandbox.manifest import GroupManifest, MergedFile, Metrics
from tests.integration.factories import make_group, make_round
from tests.integration.outputs.blocks import walk

pytestmark = pytest.mark.django_db


@pytest.fixture
def round_(workflow: Workflow) -> Round:
    return make_round(workflow)


def finish(group: MergeGroup, *, site: str = "T1_US_FNAL", now: datetime | None = None) -> None:
    """The group ends with one small file of every dataset."""
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
    manifest = GroupManifest(
        workflow_id=str(workflow.pk), round=0, group=group_name(group.index), site=site, jobs=group.jobs,
        events_read=10, events_written=10, outputs=outputs, metrics=Metrics(0.1, 50, 1.0, 0.9, 4, 10.0),
        pilot=None,
    )  # fmt: skip
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
