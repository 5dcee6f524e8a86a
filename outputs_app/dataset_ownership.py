"""Ownership of output datasets: by claims in the WMS2 database and by the content of DBS.

Block names are unique and stored before they are sent to DBS, in the database and in the groups' directories.
So a block in DBS that neither has was registered by another system, and a dataset is proven to be WMS2's if
all its blocks are.
"""

from __future__ import annotations

from datetime import datetime
from uuid import UUID

from django.db.models import Q, QuerySet

from cms.dbs import DbsClient
from dags_app.adapters import dbs
from outputs_app.models import DatasetClaim, OutputBlock, OutputDataset, OutputFile
from outputs_app.registered_notes import noted_blocks
from outputs_app.states import WITHDRAWN
from wms2_project.errors import PermanentError
from wms2_project.words import counted

HELD = Q(claimed_at__isnull=False, released_at__isnull=True)
BLOCKED = Q(allowed_by="") & ~Q(conflict="")  # in conflict with DBS, and sharing is not allowed


class NotOurs(PermanentError):
    """The workflow may not write into this dataset."""

    code = "dataset_not_ours"


def claims_on(*names: str) -> QuerySet[DatasetClaim]:
    """Return the claims in force on these datasets."""
    return DatasetClaim.objects.filter(HELD, dataset_name__in=names)


def find_conflict(name: str, catalogue: DbsClient, *, workflow_id: UUID | None = None) -> str:
    """Describe content of DBS under this name that WMS2 did not register; empty if there is none.

    A dataset without blocks belongs to WMS2 only if DBS names it as the creator and a registration was begun.
    Blocks that only the notes of the workflow know were registered before a restore of the database.
    """
    found = catalogue.content(name)
    if found is None:
        return ""
    known = OutputBlock.objects.filter(dataset__dataset_name=name).values_list("block_name", flat=True)
    strange = found.blocks - frozenset(known)
    if strange and workflow_id is not None:
        strange -= noted_blocks(workflow_id)
    begun = claims_on(name).filter(registering_at__isnull=False)
    if not strange and (found.blocks or (found.created_by == catalogue.account and begun.exists())):
        return ""
    return (
        f"{name} is in DBS as {found.access_type}, created by {found.created_by or 'an unknown account'}, "
        f"with {counted(len(strange), 'block')} that WMS2 did not register"
    )


def check_registration(dataset: OutputDataset, now: datetime) -> None:
    """Raise NotOurs unless the workflow may register blocks in the dataset.

    Before the first block, query DBS again. A conflict is recorded on the claim, which holds the request.
    The intent to create the dataset is recorded before the dataset is created.
    """
    name = dataset.dataset_name
    claim = claims_on(name).filter(workflow=dataset.workflow_id).first()
    if claim is None:
        raise NotOurs(f"{dataset.workflow} has no claim on {name}", cure=_owner_of(name))
    if not dataset.in_dbs or dataset.blocks.filter(dbs_registered_at__isnull=False).exists():
        return
    check_claim(claim, now)
    if claim.conflict and not claim.allowed_by:
        raise NotOurs(claim.conflict, cure="The request is held. Ask an operator to allow sharing")
    _invalidate_leftovers(dataset)
    if not DatasetClaim.objects.filter(HELD, pk=claim.pk).update(registering_at=now):
        raise NotOurs(f"the claim of {dataset.workflow} on {name} was released", cure=_owner_of(name))


def check_claim(claim: DatasetClaim, now: datetime) -> None:
    """Query DBS for the claimed name and store the result on the claim."""
    claim.conflict = find_conflict(claim.dataset_name, dbs(), workflow_id=claim.workflow_id)
    claim.checked_at = now
    claim.save(update_fields=["conflict", "checked_at"])


def _owner_of(name: str) -> str:
    owner = claims_on(name).filter(is_owner=True).select_related("workflow").first()
    return f"The dataset belongs to {owner.workflow}" if owner else "Its claim was released with its request"


def _invalidate_leftovers(dataset: OutputDataset) -> None:
    """Invalidate files withdrawn with the whole dataset, before new ones are added to it."""
    back = OutputFile.objects.filter(
        block__dataset__dataset_name=dataset.dataset_name,
        block__dataset__status__in=sorted(WITHDRAWN),
        block__dbs_registered_at__isnull=False,
    ).exclude(block__dataset=dataset)
    if taken_back := set(back.values_list("lfn", flat=True)):
        dbs().invalidate_files(sorted(taken_back & dbs().valid_lfns(dataset.dataset_name)))


def is_ours_alone(dataset: OutputDataset) -> bool:
    """Return whether every block of the dataset in DBS is WMS2's and no other workflow uses it."""
    if is_shared(dataset=dataset):
        return False
    ours = OutputBlock.objects.filter(dataset__dataset_name=dataset.dataset_name)
    return dbs().blocks(dataset.dataset_name) <= frozenset(ours.values_list("block_name", flat=True))


def is_shared(*, dataset: OutputDataset) -> bool:
    """Return whether another workflow has, or will have, usable files in the dataset of the same name."""
    others = OutputDataset.objects.filter(dataset_name=dataset.dataset_name).exclude(pk=dataset.pk)
    if others.exclude(status__in=sorted(WITHDRAWN)).exists():
        return True
    back = others.filter(status__in=sorted(WITHDRAWN)).values("workflow")
    writers = claims_on(dataset.dataset_name).exclude(workflow__in=back)
    return writers.filter(~Q(workflow=dataset.workflow_id) | ~Q(conflict="")).exists()
