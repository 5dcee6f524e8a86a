"""Invariants that must hold after every simulation, regardless of its faults.

They compare the records of WMS2 with the files that simulated jobs wrote and with the content of DBS and
Rucio.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from itertools import pairwise

from dags_app.models import DAG, InputFile, Workflow
from dags_app.states import LIVE_DAG, FileState
from lab.simulator.jobs import GENERATED
from lab.simulator.laboratory import Laboratory
from outputs_app.models import OutputFile
from requests_app.models import Request, StatusTransition
from requests_app.states import TERMINAL, RequestStatus, may_move
from wms2_project.access import audit
from wms2_project.models import AuditEvent


def violations(lab: Laboratory) -> Iterator[str]:
    """Yield every invariant that does not hold now that all requests have ended."""
    yield from _dags(lab)
    for request in Request.objects.select_related("workflow").order_by("request_name"):
        yield from _history(request)
        if request.status not in TERMINAL:
            why = request.last_error or request.wait_reason
            yield f"{request.request_name} is forgotten: {request.status}, {why}"
        elif request.status == RequestStatus.COMPLETED:
            yield from _outputs(lab, request.workflow)
        elif request.status == RequestStatus.FAILED:
            yield from _withdrawn(lab, request.workflow)
    yield from audit.flaws()


def _dags(lab: Laboratory) -> Iterator[str]:
    if lab.schedd.most_live > 1:
        yield "two DAGs of one directory were live at a time"
    for token, count in lab.schedd.submissions.items():
        if count > 1:
            yield f"{token} was submitted {count} times"
    known = set(DAG.objects.values_list("token", flat=True))
    for token in lab.schedd.submissions:
        if token not in known:
            yield f"{token} was submitted and is not recorded"
    ended = Request.objects.filter(status__in=sorted(TERMINAL)).values("workflow")
    for token in DAG.objects.filter(workflow__in=ended, status__in=sorted(LIVE_DAG)).values_list(
        "token", flat=True
    ):
        yield f"{token} is recorded as live although its request has ended"
    for token in lab.schedd.cleared:
        yield f"{token} was running when what it had left in the queue was removed"
    for group in lab.jobs.repeated:
        yield f"group {group} ran again although it was finished"
    if lab.clock.slept_sec:
        yield f"POST scripts slept for {lab.clock.slept_sec:g} s"
    yield from lab.cms.unprotected
    for token in lab.schedd.runs:
        yield f"{token} still runs"


def _history(request: Request) -> Iterator[str]:
    """Check that changes of status are legal and consecutive, and those of persons are in the audit."""
    status = ""
    for row in StatusTransition.objects.filter(request=request).order_by("id"):
        if row.from_status != status:
            yield f"{request.request_name}: a transition from {row.from_status} follows {status}"
        if row.from_status and not may_move(RequestStatus(row.from_status), RequestStatus(row.to_status)):
            yield f"{request.request_name}: {row.from_status} became {row.to_status}"
        status = row.to_status
        if not row.actor.startswith("system:") and row.from_status:
            audited = AuditEvent.objects.filter(
                actor=row.actor, target=request.request_name, action=row.to_status
            )
            if not audited.exists():
                yield f"{request.request_name}: {row.to_status} by {row.actor} is not in the audit"
    if status != request.status:
        yield f"{request.request_name} is {request.status}, its history ends with {status}"


def _outputs(lab: Laboratory, workflow: Workflow) -> Iterator[str]:
    for dataset in workflow.output_datasets:
        with lab.cms.answers.store.transaction() as db:
            registered = {
                row["lfn"]: row for row in db.execute("SELECT * FROM dbs_files WHERE dataset = ?", (dataset,))
            }
            status = db.execute("SELECT access_type FROM dbs_datasets WHERE name = ?", (dataset,)).fetchone()
            in_rucio = {
                row["child"]: row["parent"]
                for row in db.execute(
                    "SELECT f.parent, f.child FROM rucio_contents b"
                    " JOIN rucio_contents f ON f.parent = b.child WHERE b.parent = ?",
                    (dataset,),
                )
            }
            yield from _rules(lab, db, set(in_rucio.values()))
        recorded = set(
            OutputFile.objects.filter(
                block__dataset__dataset_name=dataset, block__dataset__workflow=workflow
            ).values_list("lfn", flat=True)
        )
        lost = {lfn for lfn in lab.jobs.published - recorded if lab.jobs.storage[lfn].dataset == dataset}
        if lost:
            yield f"{dataset}: {len(lost)} files of finished groups are lost"
        credited = sum(lab.jobs.storage[lfn].events for lfn in recorded & lab.jobs.storage.keys())
        if credited != workflow.produced_events:
            yield f"{dataset}: {workflow.produced_events} events in the ledger, {credited} in files"
        if recorded != set(registered):
            yield f"{dataset}: {len(recorded)} files recorded, {len(registered)} in DBS"
        if recorded != set(in_rucio):
            yield f"{dataset}: {len(recorded)} files recorded, {len(in_rucio)} in Rucio"
        if status is None or status["access_type"] != "VALID":
            yield f"{dataset} is not VALID in DBS: {status and status['access_type']}"
        for lfn, row in registered.items():
            made = lab.jobs.storage.get(lfn)
            if made is None:
                yield f"{lfn} is registered but no job wrote it"
            elif (row["events"], row["adler32"]) != (made.events, made.adler32):
                yield f"{lfn} is registered with other events or checksum than its job wrote"
        yield from _events(lab, workflow, dataset, recorded)


def _rules(lab: Laboratory, db: object, blocks: set[str]) -> Iterator[str]:
    """Check that every block is protected by a permanent rule, and has one rule per storage."""
    rows = db.execute("SELECT name, rse_expression, expires_at, state FROM rucio_rules")  # type: ignore[attr-defined]
    rules: dict[str, list[tuple[str, bool, str]]] = defaultdict(list)
    for row in rows:
        rules[row["name"]].append((row["rse_expression"], row["expires_at"] is None, row["state"]))
    for block in sorted(blocks):
        lasting = [rse for rse, stays, state in rules[block] if stays and state == "OK"]
        if not lasting:
            yield f"{block} is not protected: {rules[block]}"
        if max(Counter(lasting).values(), default=0) > 1:
            yield f"{block} has two rules for one storage"


def _events(lab: Laboratory, workflow: Workflow, dataset: str, lfns: set[str]) -> Iterator[str]:
    by_file: dict[str, list[tuple[int, int]]] = defaultdict(list)
    for lfn in lfns & lab.jobs.storage.keys():
        for name, first, last in lab.jobs.storage[lfn].windows:
            by_file[name].append((first, last))
    for name, ranges in by_file.items():
        ranges.sort()
        for (_, last), (first, _) in pairwise(ranges):
            if first <= last:
                yield f"{dataset}: events {first} to {last} of {name} are there twice"
    if workflow.generates:
        made = sum(last - first + 1 for first, last in by_file[GENERATED])
        if made < (workflow.total_events or 0):
            yield f"{dataset}: {made} of {workflow.total_events} events"
        return
    for file in InputFile.objects.filter(workflow=workflow).exclude(state=FileState.EXCLUDED):
        read = sum(last - first + 1 for first, last in by_file[file.lfn])
        if read != file.events:
            yield f"{dataset}: {read} of {file.events} events of {file.lfn} ({file.state})"


def _withdrawn(lab: Laboratory, workflow: Workflow) -> Iterator[str]:
    """Check that no output dataset of a failed request is VALID in DBS or has a permanent rule."""
    with lab.cms.answers.store.transaction() as db:
        for dataset in workflow.output_datasets:
            row = db.execute("SELECT access_type FROM dbs_datasets WHERE name = ?", (dataset,)).fetchone()
            files = db.execute("SELECT count(*) FROM dbs_files WHERE dataset = ?", (dataset,)).fetchone()[0]
            if row is not None and files and row["access_type"] == "VALID":
                yield f"{dataset} of a failed request is VALID in DBS"
            lasting = db.execute(
                "SELECT count(*) FROM rucio_rules WHERE name LIKE ? AND expires_at IS NULL", (f"{dataset}#%",)
            ).fetchone()[0]
            if lasting:
                yield f"{dataset} of a failed request has {lasting} rules"
