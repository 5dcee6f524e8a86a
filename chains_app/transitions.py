"""The only writer of the statuses of chains, steps and their datasets. Every change leaves an event."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from django.db import transaction
from django.db.models import F
from django.utils import timezone

from chains_app import states
from chains_app.models import Chain, ChainCallback, ChainDataset, ChainEvent, ChainStep
from wms2_project.access import audit
from wms2_project.changes import announce, chain_topic
from wms2_project.errors import IllegalTransition, StaleVersion

logger = logging.getLogger(__name__)


def move_chain(
    *,
    chain: Chain,
    to: states.ChainStatus,
    reason: str,
    actor: str,
    changes: Mapping[str, Any] | None = None,
) -> Chain:
    """Change the status of a chain and the columns in `changes`, by compare-and-set on its version."""
    current = states.ChainStatus(chain.status)
    _check(chain, states.CHAINS[current], current, to)
    now = timezone.now()
    values = {
        "status": to,
        "status_since": now,
        "updated_at": now,
        "next_check_at": now,
        "wait_reason": "",
        "hold_evidence": None,
        "version": F("version") + 1,
    }
    with transaction.atomic():
        unchanged = Chain.objects.filter(pk=chain.pk, version=chain.version, status=current)
        if not unchanged.update(**(values | dict(changes or {}))):
            raise StaleVersion(f"{chain} changed in the meantime", cure="Read it again and retry")
        chain.refresh_from_db()
        record_event(chain, kind="chain", before=current, after=to, reason=reason, actor=actor, at=now)
        audit.record_move(actor=actor, target=str(chain), before=current, after=to, reason=reason)
        if to in states.ENDED and chain.announcement.callback_url:
            ChainCallback.objects.create(chain=chain)
        logger.info("%s: %s → %s by %s: %s", chain, current, to, actor, reason)
    return chain


def move_step(
    *,
    step: ChainStep,
    to: states.StepStatus,
    reason: str,
    actor: str,
    changes: Mapping[str, Any] | None = None,
) -> ChainStep:
    """Change the status of a step and the columns in `changes`. The chain's lock protects the row."""
    current = states.StepStatus(step.status)
    _check(step, states.STEPS[current], current, to)
    now = timezone.now()
    values = {"status": to, "status_since": now, "wait_reason": "", "hold_evidence": None}
    with transaction.atomic():
        if not ChainStep.objects.filter(pk=step.pk, status=current).update(**(values | dict(changes or {}))):
            raise StaleVersion(f"{step} changed in the meantime", cure="Read it again and retry")
        step.refresh_from_db()
        record_event(
            step.chain, step=step, kind="step", before=current, after=to, reason=reason, actor=actor, at=now
        )
    return step


def move_dataset(
    *, dataset: ChainDataset, to: states.DatasetStatus, reason: str, actor: str, **changes: Any
) -> ChainDataset:
    """Change the status of a dataset and the columns given. Do nothing if it has this status already."""
    current = states.DatasetStatus(dataset.status)
    if current is to:
        return dataset
    _check(dataset, states.DATASETS[current], current, to)
    now = timezone.now()
    with transaction.atomic():
        values = {"status": to, "status_since": now, "next_check_at": now, "wait_reason": "", **changes}
        if not ChainDataset.objects.filter(pk=dataset.pk, status=current).update(**values):
            raise StaleVersion(f"{dataset} changed in the meantime", cure="Read it again and retry")
        dataset.refresh_from_db()
        record_event(
            dataset.chain,
            step=dataset.producer,
            kind="dataset",
            before=current,
            after=to,
            reason=reason,
            actor=actor,
            at=now,
            dataset=dataset.dataset_name,
        )
    return dataset


def record_event(
    chain: Chain,
    *,
    kind: str,
    reason: str,
    actor: str,
    at: datetime,
    step: ChainStep | None = None,
    before: str = "",
    after: str = "",
    **detail: Any,
) -> None:
    """Append an event to the history of a chain, and notify open pages."""
    announce(chain_topic(chain.pk))
    ChainEvent.objects.create(
        chain=chain,
        step=step,
        kind=kind,
        from_status=before,
        to_status=after,
        reason=reason,
        actor=actor,
        at=at,
        detail=detail,
    )


def _check(row: object, facts: states.Facts, current: str, to: str) -> None:
    if to not in facts.leads_to:
        legal = ", ".join(facts.leads_to) or "none, the status is final"
        raise IllegalTransition(
            f"{row} is {current} and cannot become {to}", cure=f"Allowed next statuses: {legal}"
        )
