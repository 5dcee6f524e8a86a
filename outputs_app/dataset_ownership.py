"""Whose a dataset is: by our own claims, and by what DBS has in it.

A block's name is ours alone: it is stored here before DBS hears of it. So a block in DBS that our tables do
not have was registered by somebody else, and a dataset is provably ours if all its blocks are.
"""

from __future__ import annotations

from datetime import datetime

from django.db.models import Q, QuerySet

from cms.dbs import DbsClient
from dags_app.adapters import dbs
from outputs_app.models import DatasetClaim, OutputBlock, OutputDataset, OutputFile
from outputs_app.states import DatasetStatus
from wms2_project.errors import PermanentError
from wms2_project.words import counted

HELD = Q(claimed_at__isnull=False, released_at__isnull=True)
BLOCKED = Q(allowed_by="") & ~Q(conflict="")  # DBS has what is not ours, and nobody allowed to share it


class NotOurs(PermanentError):
    """The workflow may not write into this dataset."""

    code = "dataset_not_ours"


def claims_on(*names: str) -> QuerySet[DatasetClaim]:
    """The claims on these datasets that are in force."""
    return DatasetClaim.objects.filter(HELD, dataset_name__in=names)


def find_conflict(name: str, catalogue: DbsClient) -> str:
    """Return what DBS has under this name that is not ours, in words; empty if there is no such thing.

    A dataset without blocks is ours only if DBS names us as its creator and we were about to fill it.
    """
    found = catalogue.content(name)
    if found is None:
        return ""
    known = OutputBlock.objects.filter(dataset__dataset_name=name).values_list("block_name", flat=True)
    strange = found.blocks - frozenset(known)
    begun = claims_on(name).filter(registering_at__isnull=False)
    if not strange and (found.blocks or (found.created_by == catalogue.account and begun.exists())):
        return ""
    return (
        f"{name} is in DBS as {found.access_type}, created by {found.created_by or 'an unknown account'}, "
        f"with {counted(len(strange), 'block')} that WMS2 did not register"
    )


def check_registration(dataset: OutputDataset, now: datetime) -> None:
    """Refuse to register a block in a dataset that is not its workflow's to write into.

    Before the first block DBS is asked once more. What it has there is noted on the claim, which holds the
    request, and the intent to create the dataset is noted before that happens.
    """
    name = dataset.dataset_name
    claim = claims_on(name).filter(workflow=dataset.workflow_id).first()
    if claim is None:
        raise NotOurs(f"{dataset.workflow} has no claim on {name}", cure=_owner_of(name))
    if dataset.blocks.filter(dbs_registered_at__isnull=False).exists():
        return
    check_claim(claim, now)
    if claim.conflict and not claim.allowed_by:
        raise NotOurs(claim.conflict, cure="The request is held. Ask an operator to allow sharing")
    _invalidate_leftovers(dataset)
    if not DatasetClaim.objects.filter(HELD, pk=claim.pk).update(registering_at=now):
        raise NotOurs(f"the claim of {dataset.workflow} on {name} was released", cure=_owner_of(name))


def check_claim(claim: DatasetClaim, now: datetime) -> None:
    """Ask DBS what it has under the claimed name, and keep the answer on the claim."""
    claim.conflict, claim.checked_at = find_conflict(claim.dataset_name, dbs()), now
    claim.save(update_fields=["conflict", "checked_at"])


def _owner_of(name: str) -> str:
    owner = claims_on(name).filter(is_owner=True).select_related("workflow").first()
    return f"The dataset belongs to {owner.workflow}" if owner else "Its claim was released with its request"


def _invalidate_leftovers(dataset: OutputDataset) -> None:
    """Files taken back with the whole dataset are invalidated one by one before others go into it."""
    back = OutputFile.objects.filter(
        block__dataset__dataset_name=dataset.dataset_name,
        block__dataset__status=DatasetStatus.INVALIDATED,
        block__dbs_registered_at__isnull=False,
    ).exclude(block__dataset=dataset)
    if taken_back := set(back.values_list("lfn", flat=True)):
        dbs().invalidate_files(sorted(taken_back & dbs().valid_lfns(dataset.dataset_name)))


def is_ours_alone(dataset: OutputDataset) -> bool:
    """Is every block that DBS has in the dataset this workflow's, or one that was taken back as well?"""
    if is_shared(dataset=dataset):
        return False
    ours = OutputBlock.objects.filter(dataset__dataset_name=dataset.dataset_name)
    return dbs().blocks(dataset.dataset_name) <= frozenset(ours.values_list("block_name", flat=True))


def is_shared(*, dataset: OutputDataset) -> bool:
    """Has, or will have, somebody else usable files in the dataset of the same name?"""
    others = OutputDataset.objects.filter(dataset_name=dataset.dataset_name).exclude(pk=dataset.pk)
    if others.exclude(status=DatasetStatus.INVALIDATED).exists():
        return True
    back = others.filter(status=DatasetStatus.INVALIDATED).values("workflow")
    writers = claims_on(dataset.dataset_name).exclude(workflow__in=back)
    return writers.filter(~Q(workflow=dataset.workflow_id) | ~Q(conflict="")).exists()
