"""Output blocks as left by recording, and the steps of the sweep."""

from __future__ import annotations

from itertools import count

from django.utils import timezone

from dags_app.models import Workflow
from outputs_app.models import OutputBlock, OutputDataset, OutputFile
from outputs_app.pipeline import MOVING
from outputs_app.services import advance_block, announce_datasets
from outputs_app.states import BlockStatus
from requests_app.states import RequestStatus
from tests.integration.factories import make_claim, make_group, make_request, make_round, make_workflow

_numbers = count(1)
SOURCE, DESTINATION = "T1_US_FNAL_Disk", "T2_DE_DESY"


def make_producer() -> Workflow:
    """Create a workflow with new dataset names that generates events, so that it needs no parents."""
    name = f"/Outputs{next(_numbers)}x{timezone.now():%H%M%S%f}/Lab-First-v1/AOD"
    made = make_workflow(
        output_datasets=[name], input_dataset="", acquisition_era="Lab", cmssw_version="CMSSW_20_0_1"
    )
    make_request(workflow=made, status=RequestStatus.ACTIVE)
    make_claim(made, name)
    return made


def add_block(
    workflow: Workflow, *, files: int = 2, dataset: str = "", closed: bool = True, claimed: bool = True
) -> OutputBlock:
    """Create a block as recording does, with one group per file and a claim of its workflow."""
    name = dataset or workflow.output_datasets[0]
    if claimed:
        make_claim(workflow, name)
    row, _ = OutputDataset.objects.get_or_create(workflow=workflow, dataset_name=name)
    number, now = next(_numbers), timezone.now()
    block = OutputBlock.objects.create(
        dataset=row,
        block_name=f"{name}#{number}",
        site="T1_US_FNAL",
        rse=SOURCE,
        closed_at=now if closed else None,
    )
    round_ = workflow.rounds.first() or make_round(workflow)
    for index in range(files):
        OutputFile.objects.create(
            block=block,
            group=make_group(round_, status="collected", events_written=10),
            lfn=f"/store/data/Lab{name}/{number}/{index}.root",
            size_bytes=1000 + index,
            events=10,
            adler32=f"{index:08x}",
            lumis=[[1, 10 * index + 1, 10 * index + 5]],
        )
    return block


def announce(workflow: Workflow) -> None:
    """Make its datasets VALID, with no other request left that writes into them."""
    announce_datasets(workflow=workflow, unfinished=Workflow.objects.none(), now=timezone.now())


def walk(block: OutputBlock, *, until: BlockStatus | None = None, looks: int = 30) -> OutputBlock:
    """Advance the block as the sweep does, until it has ended or has the wanted status."""
    for _ in range(looks):
        block.refresh_from_db()
        if block.status not in MOVING or block.status == until:
            break
        advance_block(block.pk)
    block.refresh_from_db()
    return block
