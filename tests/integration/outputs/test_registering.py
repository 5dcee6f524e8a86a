"""Registration of output datasets in DBS, besides their files."""

from __future__ import annotations

from dataclasses import replace

import pytest
from django.utils import timezone

from cms.types import BlockFile, BlockRecord
from dags_app.adapters import dbs
from dags_app.models import Workflow
from outputs_app.models import OutputBlock
from outputs_app.services import advance_block
from outputs_app.states import BlockStatus
from tests.integration.outputs.blocks import add_block, make_producer, walk
from tests.integration.outputs.conftest import Faults

pytestmark = pytest.mark.django_db
INPUT = BlockRecord(
    block_name="", dataset="", site="T1_US_FNAL_Disk", files=(), acquisition_era="Lab", processing_version=1,
    physics_group="NoGroup", prep_id="", release="CMSSW_20_0_1", global_tag="", primary_type="mc",
    created_at=1_700_000_000,
)  # fmt: skip


def reads(kind: str) -> OutputBlock:
    """Return a block made from a dataset of this kind."""
    producer = make_producer()
    name = f"/Input{kind}x{timezone.now():%H%M%S%f}/Lab-First-v1/GEN-SIM"
    file = BlockFile(f"/store/data/Lab{name}/1.root", 1000, 10, "0123abcd", ((1, 1, 1),))
    dbs().register_block(
        replace(INPUT, block_name=f"{name}#1", dataset=name, files=(file,), primary_type=kind)
    )
    Workflow.objects.filter(pk=producer.pk).update(input_dataset=name)
    producer.refresh_from_db()
    return add_block(producer)


@pytest.mark.parametrize("kind", ["mc", "data"])
def test_outputs_of_simulated_data_are_simulated(kind: str) -> None:
    block = walk(reads(kind))
    found = dbs().dataset(block.dataset.dataset_name)
    assert found is not None
    assert (block.status, found.primary_type) == (BlockStatus.ANNOUNCED, kind)


def test_the_input_is_queried_once_per_dataset(faults: Faults) -> None:
    first = walk(reads("mc"))
    workflow = first.dataset.workflow
    pattern = f"datasets.*{workflow.input_dataset.split('/')[1]}" if workflow.input_dataset else ""
    faults({"service": "dbs", "path_regex": pattern, "kind": "status", "status": 503, "times": None})
    assert walk(add_block(workflow)).status == BlockStatus.ANNOUNCED


def test_an_input_dbs_does_not_know_stops_the_block_with_a_sentence(block: OutputBlock) -> None:
    Workflow.objects.filter(pk=block.dataset.workflow_id).update(input_dataset="/Unknown/First-v1/AOD")
    advance_block(block.pk)
    block.refresh_from_db()
    assert (block.status, "/Unknown/First-v1/AOD" in block.last_error) == (BlockStatus.CHECKED, True)
