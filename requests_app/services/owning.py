"""Ownership of output datasets: claimed at submission, shared only with an operator's permission."""

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
from outputs_app.dataset_ownership import claims_on, find_conflict
from outputs_app.models import DatasetClaim
from requests_app.models import Request
from requests_app.states import TERMINAL
from requests_app.transitions import check_action
from wms2_project.access import audit
from wms2_project.errors import Conflict, InvalidInput, StaleVersion, Wms2Error
from wms2_project.service_guards import USUAL_RANK, calling_as

logger = logging.getLogger(__name__)
FIELD = "output_datasets"
CURE = (
    "Choose another ProcessingVersion; or name the request it replaces in PreviousVersionRequest; or send it "
    "as a draft, have an operator allow sharing (POST /requests/NAME/share), and submit it then"
)


def chain_of(request: Request) -> UUID:
    """Return the workflow of the first version of the request, which identifies all versions."""
    first = request
    while first.previous_version is not None:
        first = first.previous_version
    return first.workflow_id


def ask_dbs(names: Sequence[str]) -> dict[str, str]:
    """Return the conflict found in DBS for each dataset, within a few seconds.

    Datasets without an answer are absent; they are checked again before the request continues.
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
        logger.warning("output datasets are not checked in DBS yet: %s", error)
    return found


def claim_outputs(*, request: Request, found: Mapping[str, str], now: datetime) -> None:
    """Claim the request's output datasets, or raise InvalidInput with their owner. Call inside a transaction.

    `found`: conflicts found in DBS, by dataset.
    """
    names = request.workflow.written_datasets
    outputs.lock_datasets(names)
    others = _others(request)
    freed = _unused(others)
    _refuse(request, [claim for claim in others if claim.pk not in freed], found)
    outputs.release_claims(ids=freed, now=now)
    outputs.claim_datasets(workflow=request.workflow, chain_id=chain_of(request), found=found, now=now)


def _others(request: Request) -> list[DatasetClaim]:
    claims = claims_on(*request.workflow.written_datasets).exclude(workflow=request.workflow_id)
    return list(claims.select_related("workflow").order_by("dataset_name", "claimed_at"))


def _refuse(request: Request, others: Sequence[DatasetClaim], found: Mapping[str, str]) -> None:
    """Raise if a dataset belongs to another request or is in DBS, and sharing is not allowed."""
    allowed = set(request.workflow.claims.exclude(allowed_by="").values_list("dataset_name", flat=True))
    chain = chain_of(request)
    wrong: dict[str, str] = {name: message for name, message in found.items() if message}
    rows = Request.objects.filter(workflow__in=[claim.workflow_id for claim in others])
    owners = {row.workflow_id: row for row in rows}
    for claim in reversed(others):  # the first claim, the owner's, is reported
        if claim.chain_id != chain:
            owner = owners[claim.workflow_id]
            message = f"belongs to request {owner} of {owner.requestor} ({owner.status})"
            wrong[claim.dataset_name] = f"{claim.dataset_name} {message}"
    message = "; ".join(wrong[name] for name in sorted(wrong) if name not in allowed)
    if message:
        raise InvalidInput(f"{FIELD}: {message}", fields={FIELD: message}, cure=CURE)


def check_outputs(request: Request) -> None:
    """Raise as `claim_outputs` would, without calling DBS. Nothing is written."""
    others = _others(request)
    freed = _unused(others)
    _refuse(request, [claim for claim in others if claim.pk not in freed], {})


def _unused(claims: Sequence[DatasetClaim]) -> set[int]:
    """Return the claims of requests that ended without registered outputs; they block no other request."""
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
    """Allow the request to write into datasets owned by others: the given ones, or all of its outputs.

    Afterwards a draft can be submitted and a held request released.
    """
    check_action(request, reason=reason, expected_version=expected_version)
    if request.status in TERMINAL:
        raise Conflict(f"{request} is {request.status}", cure="Only open requests can share datasets")
    own = request.workflow.written_datasets
    strange = sorted(set(datasets) - set(own))
    if strange:
        message = f"{strange[0]} is not an output of {request}; its outputs are {', '.join(own)}"
        raise InvalidInput("sharing was not allowed", fields={"datasets": message})
    names = sorted(set(datasets) or set(own))
    with transaction.atomic():
        unchanged = Request.objects.filter(pk=request.pk, version=request.version)
        if not unchanged.update(version=F("version") + 1, updated_at=now, next_check_at=now):
            raise StaleVersion(f"{request} changed in the meantime", cure="Read it again and retry")
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
