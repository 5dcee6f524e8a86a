"""Start of a step: stores its document, imports its request once, and records its datasets."""

from __future__ import annotations

from datetime import datetime, timedelta

from django.db import transaction

from chains_app.cwl.expressions import ExpressionError
from chains_app.cwl.graph import Leaf
from chains_app.cwl.types import Tool
from chains_app.cwl.values import as_names
from chains_app.cwl.wiring import Call
from chains_app.models import Chain, ChainDataset, ChainStep
from chains_app.request_documents import CallContext, build_document, input_ports
from chains_app.states import DatasetRole, DatasetStatus, StepStatus
from chains_app.transitions import move_dataset, move_step
from requests_app.services.importing import import_request
from wms2_project.errors import Conflict, InvalidInput, QuotaExceeded
from wms2_project.failpoints import failpoint
from wms2_project.grammar import Name, matches

ACTOR = "system:chains"


def datasets_read(call: Call) -> list[str]:
    """Return the names of datasets among the inputs of a call."""
    return [one for value in call.inputs.values() for one in as_names(value) if matches(Name.DATASET, one)]


def start_step(*, step: ChainStep, leaf: Leaf, call: Call, now: datetime) -> StepStatus:
    """Import the request of a call and return its status.

    A request that is refused holds the step; with an exhausted quota it stays defined.
    """
    try:
        _plan(step, leaf, call)
        failpoint("chain.planned")
        request, _ = import_request(
            document=step.document or {},
            actor=ACTOR,
            source="chain",
            idempotency_key=idempotency_key(step),
            on_behalf=True,
        )
    except QuotaExceeded as error:
        ChainStep.objects.filter(pk=step.pk).update(wait_reason=str(error)[:1000])
        return StepStatus.DEFINED
    except (InvalidInput, Conflict) as error:
        fields = error.fields if isinstance(error, InvalidInput) else {}
        reason = f"{step}: the request was refused: {error.message}"
        evidence = {"reason": reason, "fields": fields, "remedy": error.cure}
        move_step(
            step=step, to=StepStatus.HELD, reason=reason, actor=ACTOR,
            changes={"hold_evidence": evidence, "document": None},
        )  # fmt: skip
        return StepStatus.HELD
    failpoint("chain.imported")
    tool = leaf.step.tool
    hours = tool.deadline_hours if tool is not None else None
    with transaction.atomic():
        move_step(
            step=step,
            to=StepStatus.RUNNING,
            reason=f"request {request.request_name} is submitted",
            actor=ACTOR,
            changes={
                "request": request,
                "started_at": now,
                "deadline_at": now + timedelta(hours=hours) if hours else None,
            },
        )
        for row in step.datasets.select_related("chain", "producer"):
            move_dataset(dataset=row, to=DatasetStatus.WRITING, reason="its step runs", actor=ACTOR)
    return StepStatus.RUNNING


def _producer(chain: Chain, tool: Tool, call: Call) -> str:
    """Return the request whose outputs a streaming call takes one by one; empty if it reads a dataset."""
    names = [name for port in input_ports(tool) for name in as_names(call.inputs.get(port.id))]
    if not tool.streams or len(names) != 1:
        return ""
    written = chain.datasets.filter(dataset_name=names[0], producer__request__isnull=False)
    return written.values_list("producer__request__request_name", flat=True).first() or ""


def idempotency_key(step: ChainStep) -> str:
    """Return the key of a call's request: one per chain, step, index and try."""
    place = ".".join(map(str, step.index)) or "-"
    return f"chain/{step.chain_id}/{step.step}/{place}/{step.tries}"


def _plan(step: ChainStep, leaf: Leaf, call: Call) -> None:
    """Store inputs and document of the call, once, and record which datasets it reads."""
    if step.document is not None or leaf.step.tool is None:
        return
    chain = step.chain
    written = list(step.datasets.order_by("id").values_list("role", "dataset_name"))
    logs = [name for role, name in written if role == DatasetRole.LOG]
    announcement, template = chain.announcement, chain.template
    context = CallContext(
        request_name=step.request_name,
        outputs=[name for role, name in written if role != DatasetRole.LOG],
        requestor=template.created_by.partition(":")[2] or "chains",
        log_dataset=logs[0] if logs else "",
        priority=announcement.priority,
        correlation_id=announcement.correlation_id,
        producer=_producer(chain, leaf.step.tool, call),
    )
    try:
        document = build_document(leaf.step.tool, inputs=call.inputs, position=call.position, context=context)
    except ExpressionError as error:
        raise InvalidInput(error.message, cure=error.cure) from error
    with transaction.atomic():
        ChainStep.objects.filter(pk=step.pk).update(document=document, inputs=call.inputs, wait_reason="")
        for row in ChainDataset.objects.filter(chain=chain, dataset_name__in=datasets_read(call)):
            row.consumers.add(step)
    step.refresh_from_db()
