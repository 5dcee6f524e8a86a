"""Whose the output datasets of a request are: claimed when it is submitted, shared only by permission."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from datetime import datetime
from time import monotonic
from uuid import UUID

from django.conf import settings
from django.db import transaction
from django.db.models import F

from dags_app.adapters import dbs
from outputs_app import services as outputs
from outputs_app.claims import claims_on, find_conflict
from outputs_app.models import DatasetClaim
from requests_app.models import Request
from requests_app.services.preconditions import check_action
from requests_app.states import TERMINAL
from wms2_project import audit
from wms2_project.errors import Conflict, InvalidInput, StaleVersion, Wms2Error
from wms2_project.guards import USUAL_RANK, calling_as

logger = logging.getLogger(__name__)
FIELD = "output_datasets"
CURE = (
    "Choose another ProcessingVersion; or name the request it replaces in PreviousVersionRequest; or send it "
    "as a draft, have an operator allow sharing (POST /requests/NAME/share), and submit it then"
)


def chain_of(request: Request) -> UUID:
    """Return the workflow of the first version of the request: it stands for all of them."""
    first = request
    while first.previous_version is not None:
        first = first.previous_version
    return first.workflow_id


def ask_dbs(names: Sequence[str]) -> dict[str, str]:
    """Return what DBS has under each name that is not ours, as far as it answers within a few seconds.

    Names that it did not speak of are left out: they are asked about again before the request goes on.
    """
    found: dict[str, str] = {}
    ends_at = monotonic() + settings.IMPORT_DBS_SEC
    try:
        for name in names:
            if monotonic() > ends_at:
                break
            with calling_as(USUAL_RANK, patience_sec=0.0):
                found[name] = find_conflict(name, dbs(quick=True))
    except Wms2Error as error:
        logger.warning("output datasets are not compared with DBS yet: %s", error)
    return found


def claim_outputs(*, request: Request, found: Mapping[str, str], now: datetime) -> None:
    """Claim the request's output datasets, or raise and name whose they are. Inside a transaction.

    `found`: what DBS has under their names that is not ours.
    """
    names = request.workflow.output_datasets
    outputs.lock_datasets(names)
    others = _others(request)
    freed = _unused(others)
    _refuse(request, [claim for claim in others if claim.pk not in freed], found)
    outputs.release_claims(ids=freed, now=now)
    outputs.claim_datasets(workflow=request.workflow, chain_id=chain_of(request), found=found, now=now)


def _others(request: Request) -> list[DatasetClaim]:
    claims = claims_on(*request.workflow.output_datasets).exclude(workflow=request.workflow_id)
    return list(claims.select_related("workflow").order_by("dataset_name", "claimed_at"))


def _refuse(request: Request, others: Sequence[DatasetClaim], found: Mapping[str, str]) -> None:
    """Raise if a dataset belongs to another chain, or is in DBS, and nobody allowed to share it."""
    allowed = set(request.workflow.claims.exclude(allowed_by="").values_list("dataset_name", flat=True))
    chain = chain_of(request)
    wrong: dict[str, str] = {name: told for name, told in found.items() if told}
    rows = Request.objects.filter(workflow__in=[claim.workflow_id for claim in others])
    owners = {row.workflow_id: row for row in rows}
    for claim in reversed(others):  # so that the first claim, the owner's, is the one that is told
        if claim.chain_id != chain:
            owner = owners[claim.workflow_id]
            told = f"belongs to request {owner} of {owner.requestor}, which is {owner.status}"
            wrong[claim.dataset_name] = f"{claim.dataset_name} {told}"
    told = "; ".join(wrong[name] for name in sorted(wrong) if name not in allowed)
    if told:
        raise InvalidInput(f"{FIELD}: {told}", fields={FIELD: told}, cure=CURE)


def check_outputs(request: Request) -> None:
    """Raise as `claim_outputs` would, without asking DBS. Nothing is written."""
    others = _others(request)
    freed = _unused(others)
    _refuse(request, [claim for claim in others if claim.pk not in freed], {})


def _unused(claims: Sequence[DatasetClaim]) -> set[int]:
    """The claims of requests that ended with nothing registered: they keep no name from others."""
    rows = Request.objects.filter(workflow__in=[claim.workflow_id for claim in claims])
    ended = set(rows.filter(status__in=sorted(TERMINAL)).values_list("workflow", flat=True))
    return outputs.find_unused(claim for claim in claims if claim.workflow_id in ended)


def share_outputs(
    *,
    request: Request,
    actor: str,
    reason: str,
    now: datetime,
    datasets: Sequence[str] = (),
    expected_version: int | None = None,
) -> Request:
    """Allow the request to write into datasets that others own, all of its outputs unless some are named.

    A draft may be submitted then, a held request released.
    """
    check_action(request, reason=reason, expected_version=expected_version)
    if request.status in TERMINAL:
        raise Conflict(f"{request} is {request.status}", cure="What has ended writes into no dataset")
    own = request.workflow.output_datasets
    strange = sorted(set(datasets) - set(own))
    if strange:
        told = f"{strange[0]} is not an output of {request}; these are: {', '.join(own)}"
        raise InvalidInput("nothing was allowed", fields={"datasets": told})
    names = sorted(set(datasets) or set(own))
    with transaction.atomic():
        unchanged = Request.objects.filter(pk=request.pk, version=request.version)
        if not unchanged.update(version=F("version") + 1, updated_at=now, next_check_at=now):
            raise StaleVersion(f"{request} changed meanwhile", cure="Read it again and repeat")
        outputs.lock_datasets(names)
        outputs.allow_sharing(
            workflow=request.workflow, chain_id=chain_of(request), names=names, actor=actor, reason=reason,
            now=now,
        )  # fmt: skip
        writers = sorted({str(claim.workflow) for claim in _others(request) if claim.dataset_name in names})
        audit.record(
            actor=actor, action="share", target=str(request), reason=reason, datasets=names, writers=writers
        )
    request.refresh_from_db()
    return request
