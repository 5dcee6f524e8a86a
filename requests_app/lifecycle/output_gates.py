"""The gates of a request's outputs: collected, registered in DBS, protected and moved by Rucio."""

from __future__ import annotations

from django.db.models import Count, Min

from dags_app.models import MergeGroup
from dags_app.states import GroupStatus
from outputs_app.models import OutputBlock, RucioRule
from outputs_app.selectors import wrong_outputs
from outputs_app.states import BlockStatus
from requests_app.lifecycle.gate_result import Gate, Verdict
from requests_app.lifecycle.gate_result import passed as _passed
from requests_app.lifecycle.snapshot import Snapshot
from wms2_project.words import counted

_B = BlockStatus
CHECK = "output check"
IN_RUCIO = tuple(state for state in _B if state not in (_B.PENDING, _B.CHECKED, _B.FAILED, _B.ANNOUNCED))
MAX_NAMED = 20  # files listed in the evidence


def stage_out(snapshot: Snapshot) -> Gate:
    """Block until the outputs of every finished group are recorded in the database."""
    waiting = MergeGroup.objects.filter(round__workflow=snapshot.workflow, status=GroupStatus.DONE)
    found = waiting.aggregate(groups=Count("id"), since=Min("finished_at"))
    if not found["groups"]:
        return _passed("stage-out", "the outputs of all finished groups are collected")
    return Gate(
        "stage-out",
        Verdict.BLOCK,
        f"the outputs of {counted(found['groups'], 'finished group')} are not collected yet",
        {"groups": found["groups"], "last_error": snapshot.request.last_error},
        since=found["since"],
        remedy="Wait: outputs are collected automatically. A damaged manifest is named in the error",
    )


def output_check(snapshot: Snapshot) -> Gate:
    """Block until every merged file was read on the storage and is what its job reported."""
    failed = snapshot.blocks.get(_B.FAILED)
    if failed is None:
        return _blocks(snapshot, CHECK, (_B.PENDING,), "checked on the storage", "the storage")
    wrong = wrong_outputs(workflow=snapshot.workflow)
    count = wrong.count()
    files = [
        {
            "lfn": file.lfn,
            "site": file.block.site,
            "block": file.block.block_name,
            "problem": file.check_problem,
        }
        for file in wrong[:MAX_NAMED]
    ]
    first = f", the first is {files[0]['lfn']} at {files[0]['site']}: {files[0]['problem']}" if files else ""
    return Gate(
        CHECK,
        Verdict.BLOCK,
        f"{counted(count, 'merged file')} not as reported{first}",
        {"wrong": count, "files": files, "blocks": failed.blocks},
        since=failed.since,
        remedy="Restore the files on the storage and release the request, which checks them again; or restart"
        " or fail the request. Nothing of these blocks is in DBS or Rucio",
        needs_operator=True,
    )


def dbs(snapshot: Snapshot) -> Gate:
    """Block until every output block is registered in DBS."""
    return _blocks(snapshot, "dbs", (_B.CHECKED,), "registered in DBS", "DBS")


def rucio(snapshot: Snapshot) -> Gate:
    """Block until every output block is protected, copied and announced."""
    gate = _blocks(snapshot, "rucio", IN_RUCIO, "protected, copied and announced", "Rucio")
    if not gate.blocks:
        return gate
    rules = RucioRule.objects.filter(
        block__dataset__workflow=snapshot.workflow, block__status__in=IN_RUCIO, deleted_at__isnull=True
    ).exclude(state__in=["", "OK"])
    stuck = list(rules.values("rule_id", "state", "rse_expression", "created_at").order_by("created_at")[:5])
    if not stuck:
        return gate
    first = stuck[0]
    message = f"waiting for Rucio rule {first['rule_id']} to {first['rse_expression']}, {first['state']}"
    return Gate(
        "rucio",
        Verdict.BLOCK,
        message,
        gate.evidence | {"rules": stuck},
        since=first["created_at"],
        remedy="A stuck rule is boosted automatically. Ask the Rucio operators for the cause",
    )


def _blocks(snapshot: Snapshot, name: str, states: tuple[_B, ...], what: str, service: str) -> Gate:
    found = {state: snapshot.blocks[state] for state in states if state in snapshot.blocks}
    if not found:
        return _passed(name, f"no block waits to be {what}")
    rows = OutputBlock.objects.filter(dataset__workflow=snapshot.workflow, status__in=states)
    failing = (
        rows.exclude(last_error="").order_by("-last_error_at").values("block_name", "last_error").first()
        if any(count.with_message for count in found.values())
        else None
    )
    counts = {state.value: count.blocks for state, count in found.items()}
    total = sum(counts.values())
    message = f"{counted(total, 'block')} {'is' if total == 1 else 'are'} not {what} yet"
    return Gate(
        name,
        Verdict.BLOCK,
        f"{message}: {failing['last_error']}" if failing else message,
        {"blocks": counts, "failing": failing},
        since=min(count.since for count in found.values()),
        remedy=f"Wait: retried automatically until {service} answers" if failing else "Wait",
    )
