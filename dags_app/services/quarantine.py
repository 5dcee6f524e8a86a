"""Copies of files proved bad: stored for all requests, declared to Rucio by policy, lifted or expired."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable
from datetime import datetime, timedelta
from functools import reduce
from itertools import islice
from operator import or_

from django.conf import settings
from django.db import transaction
from django.db.models import Q, QuerySet

from cms.types import ReplicaVerdict
from dags_app.adapters import rucio
from dags_app.failures.clusters import RoundFailures
from dags_app.failures.proofs import Proof, find_proofs
from dags_app.models import DAG, InputFile, QuarantinedReplica
from dags_app.planning.types import SitePool
from dags_app.states import IN_QUEUE, FileState, QuarantineState
from wms2_project.access import audit
from wms2_project.errors import Conflict, NotFound, Wms2Error
from wms2_project.locks import try_lock
from wms2_project.wakeups import DATA, wake_waiting

logger = logging.getLogger(__name__)
DETECTION, EXPIRY = "system:quarantine", "system:expiry"
OFF = "off"  # the policy that declares nothing
DECLARED_AT_ONCE = 100  # per run of the task
DECLARE_AGAIN_SEC = 600.0
MAX_REASON = 250  # characters Rucio keeps
MAX_PER_DAG = 1000


def in_force(*, now: datetime) -> QuerySet[QuarantinedReplica]:
    """Return the copies that requests avoid now."""
    return QuarantinedReplica.objects.filter(in_state(QuarantineState.IN_FORCE, now=now))


def in_state(*states: QuarantineState, now: datetime) -> Q:
    """Return a filter for copies in one of these states."""
    over = Q(ended_at__isnull=True, expires_at__lte=now) | Q(ended_by=EXPIRY)
    matching = {
        QuarantineState.IN_FORCE: Q(ended_at__isnull=True, expires_at__gt=now),
        QuarantineState.EXPIRED: over,
        QuarantineState.LIFTED: Q(ended_at__isnull=False) & ~Q(ended_by=EXPIRY),
    }
    return reduce(or_, (matching[state] for state in states))


def state_of(row: QuarantinedReplica, *, now: datetime) -> QuarantineState:
    """Return whether the copy is still avoided, or how its quarantine ended."""
    if row.ended_at is None:
        return QuarantineState.IN_FORCE if row.expires_at > now else QuarantineState.EXPIRED
    return QuarantineState.EXPIRED if row.ended_by == EXPIRY else QuarantineState.LIFTED


def quarantined_by_id(replica_id: int) -> QuarantinedReplica:
    """Return the row. Raise NotFound if it does not exist."""
    row = QuarantinedReplica.objects.select_related("workflow").filter(pk=replica_id).first()
    if row is None:
        raise NotFound(f"There is no quarantined replica {replica_id}", cure="See GET /api/v1/quarantine")
    return row


def quarantine_replicas(*, dag: DAG, failures: RoundFailures, sites: SitePool, now: datetime) -> int:
    """Quarantine the copies of the workflow's input that the failures of an ended DAG prove bad; repeatable.

    A copy that is in quarantine stays there longer, with the newest proof. Return how many there are.
    """
    proofs = find_proofs(
        failures,
        min_failures=settings.SITE_BAN_MIN_FAILURES,
        failure_ratio=settings.SITE_BAN_FAILURE_RATIO,
    )
    named = {proof.lfn for proof in proofs}
    held = dict(dag.workflow.input_files.filter(lfn__in=named).values_list("lfn", "locations"))
    known = list(islice((proof for proof in proofs if proof.lfn in held), MAX_PER_DAG))
    if not known:
        return 0
    with transaction.atomic():
        expire_quarantine(now=now)
        for proof in known:
            _quarantine(dag, proof, _storages(held[proof.lfn], proof.site, sites), now)
        note_changed_replicas(lfns={proof.lfn for proof in known}, now=now)
    return len(known)


def _storages(locations: Iterable[str], site: str, sites: SitePool) -> list[str]:
    return sorted(storage for storage in locations if site in sites.by_storage.get(storage, ()))


def _quarantine(dag: DAG, proof: Proof, storages: list[str], now: datetime) -> None:
    row = QuarantinedReplica.objects.select_for_update().filter(
        lfn=proof.lfn, site=proof.site, ended_at__isnull=True
    )
    known = row.first()
    if known is not None and known.dag_id == dag.pk:
        return
    values = {
        "exit_code": proof.exit_code,
        "proof": proof.message,
        "node": proof.node[:100],
        "dag": dag,
        "workflow": dag.workflow,
        "proved_at": now,
        "expires_at": now + timedelta(days=settings.QUARANTINE_DAYS),
    }
    if known is not None:
        row.update(**values)
        return
    declares = settings.DECLARE_BAD_REPLICAS != OFF and storages
    made = QuarantinedReplica.objects.create(
        lfn=proof.lfn,
        site=proof.site,
        storages=storages,
        created_at=now,
        declare_at=now if declares else None,
        **values,
    )
    _record("quarantine", made, DETECTION, f"{proof.exit_code} {proof.message}")


def note_changed_replicas(*, lfns: Collection[str], now: datetime) -> int:
    """Make running DAGs that read these files decide their landings again. Return the number of DAGs."""
    live = DAG.objects.filter(status__in=sorted(IN_QUEUE), applied_sites__isnull=False)
    workflows = list(live.values_list("workflow", flat=True))
    readers = InputFile.objects.filter(workflow__in=workflows, lfn__in=lfns, state=FileState.ASSIGNED)
    return live.filter(workflow__in=readers.values("workflow")).update(landings_stale_since=now)


def lift_quarantine(*, replica: QuarantinedReplica, actor: str, reason: str, now: datetime) -> None:
    """End the quarantine of a copy: requests may read it again from the next planning on."""
    audit.need_reason(reason)
    with transaction.atomic():
        row = QuarantinedReplica.objects.select_for_update().get(pk=replica.pk)
        if row.ended_at is not None:
            raise Conflict(f"{row} is not in quarantine any more", cure="There is nothing to lift")
        _end(row, actor, reason, now)
        _record("lift_quarantine", row, actor, reason)
        note_changed_replicas(lfns=[row.lfn], now=now)
        wake_waiting(DATA)
    replica.refresh_from_db()


def expire_quarantine(*, now: datetime) -> int:
    """Record the end of expired quarantines. They are not in force even before that."""
    with transaction.atomic():
        over = QuarantinedReplica.objects.select_for_update(skip_locked=True)
        ended = list(over.filter(ended_at__isnull=True, expires_at__lte=now).select_related("workflow"))
        for row in ended:
            _end(row, EXPIRY, f"expired on {row.expires_at:%F %R}", now)
            _record("expire_quarantine", row, EXPIRY, row.end_reason)
        if ended:
            wake_waiting(DATA)
    return len(ended)


def _end(row: QuarantinedReplica, actor: str, reason: str, now: datetime) -> None:
    row.ended_at, row.ended_by, row.end_reason, row.declare_at = now, actor, reason, None
    row.save(update_fields=["ended_at", "ended_by", "end_reason", "declare_at"])


def declare_replicas(*, now: datetime) -> None:
    """Declare quarantined copies to Rucio according to the policy. Only one call runs at a time.

    What Rucio does not take now is tried again later, with the error on the row.
    """
    policy = settings.DECLARE_BAD_REPLICAS
    if policy == OFF:
        return
    with try_lock("declare replicas") as held:
        if not held:
            return
        due = QuarantinedReplica.objects.filter(declare_at__lte=now).order_by("declare_at")
        for row in due.select_related("workflow")[:DECLARED_AT_ONCE]:
            _declare(row, ReplicaVerdict(policy), now)


def _declare(row: QuarantinedReplica, policy: ReplicaVerdict, now: datetime) -> None:
    """Declare the copy in Rucio; only suspicious if the site has several storages, one of which was read."""
    verdict = policy if len(row.storages) == 1 else ReplicaVerdict.SUSPICIOUS
    reason = f"WMS2: {row.exit_code} of {row.workflow.request_name}: {row.proof}"[:MAX_REASON]
    undeclared = QuarantinedReplica.objects.filter(pk=row.pk)
    try:
        found = [rucio().declare_replica(row.lfn, one, verdict, reason=reason) for one in row.storages]
    except Wms2Error as error:
        logger.warning("%s is not declared yet: %s", row, error)
        again = now + timedelta(seconds=DECLARE_AGAIN_SEC)
        undeclared.filter(ended_at__isnull=True).update(declare_error=str(error)[:1000], declare_at=again)
        return
    if any(found):
        undeclared.update(declared_as=verdict, declared_at=now, declare_error="", declare_at=None)
        _record("declare_replica", row, DETECTION, f"{verdict} in Rucio: {reason}")
    else:
        undeclared.update(declare_error="Rucio has no such replica", declare_at=None)


def _record(action: str, row: QuarantinedReplica, actor: str, reason: str) -> None:
    audit.record(
        actor=actor,
        action=action,
        target=row.lfn[:200],
        reason=reason[:1000],
        site=row.site,
        request=row.workflow.request_name,
        until=row.expires_at.isoformat(),
    )
    logger.warning("%s of %s: %s", action, row, reason)
