"""Templates: check and load documents, and move versions between loaded, actual and archived."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from django.conf import settings
from django.db import connection, transaction
from django.db.models import Max
from django.utils import timezone

from chains_app import masks
from chains_app.cwl.checking import check_document
from chains_app.cwl.expressions import ExpressionError
from chains_app.cwl.graph import Graph, Leaf, build_graph
from chains_app.cwl.reading import Reading
from chains_app.cwl.types import Problem, Workflow, to_json
from chains_app.models import MAX_TEMPLATE_NAME, Template
from chains_app.naming import CallName, dataset_name, request_name
from chains_app.request_documents import STAND_IN_DATASET, CallContext, build_document, stand_ins
from chains_app.states import TEMPLATES, CleanupStrategy, TemplateStatus
from requests_app.services.reading import read_request
from wms2_project.access import audit
from wms2_project.errors import Conflict, InvalidInput
from wms2_project.locks import lock_key

NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,59}", re.ASCII)
EDITABLE = ("mask", "cleanup", "keep_logs", "delete_input", "description")


class TemplateRefused(InvalidInput):
    """A document with problems, each with its line and column."""

    def __init__(self, problems: list[Problem]) -> None:
        text = "\n".join(map(str, problems))
        super().__init__("the document was refused", fields={"document": text})
        self.problems = problems


def check_template(document: str, *, wiring_only: bool = False) -> Reading:
    """Return the normalised workflow of a document, or everything that is wrong with it.

    Each step's request is read with stand-in values, so that no chain is held for it later.
    """
    reading = check_document(document, wiring_only=wiring_only)
    if reading.workflow is None or wiring_only:
        return reading
    graph = build_graph(reading.workflow)
    for leaf in graph.leaves:
        for problem in (*_check_leaf(leaf), *_check_streaming(leaf, graph)):
            line, column = reading.places.get(leaf.path, (1, 1))
            reading.problems.append(replace(problem, line=line, column=column, step=leaf.path))
    if reading.problems:
        reading.workflow = None
    return reading


def _check_leaf(leaf: Leaf) -> list[Problem]:
    tool = leaf.step.tool
    if tool is None:
        return []
    call = CallName("template", 1, leaf.path)
    ports = leaf.dataset_ports
    outputs = [
        dataset_name(call, like=STAND_IN_DATASET, tier=tool.tier, port=port if len(ports) > 1 else "")
        for port in ports
    ]
    context = CallContext(request_name(call), outputs, "template")
    try:
        document = build_document(tool, inputs=stand_ins(tool), position=0, context=context)
        read_request(document)
    except ExpressionError as error:
        return [Problem(f"{leaf.path}: {error.message}", cure=error.cure)]
    except InvalidInput as error:
        found = error.fields or {"request": error.message}
        return [Problem(f"{leaf.path}: {field}: {message}") for field, message in found.items()]
    return []


def _check_streaming(leaf: Leaf, graph: Graph) -> list[Problem]:
    """Return why a step with `start: first_file` cannot take the files of its producer one by one."""
    if leaf.step.tool is None or not leaf.step.tool.streams:
        return []
    written = {one.path: one.dataset_ports for one in graph.leaves}
    read = {path for path, port in graph.reads[leaf.path] if port in written.get(path, ())}
    if len(read) != 1 or any(len(written[path]) != 1 for path in read):
        message = "start: first_file needs one other step as its input, which writes one dataset"
        return [Problem(f"{leaf.path}: {message}", cure="Use start: complete, the default")]
    return []


def load_template(
    *,
    name: str,
    document: str,
    actor: str,
    reason: str,
    mask: str = "",
    confirm: bool = False,
    cleanup: str = CleanupStrategy.KEEP,
    keep_logs: bool = False,
    delete_input: bool = False,
    description: str = "",
) -> Template:
    """Store a document as the next version of a template, in status loaded.

    Raises InvalidInput for an illegal name or mask, TemplateRefused with all problems of the document.
    """
    audit.need_reason(reason)
    if NAME.fullmatch(name) is None:
        message = f"letters, digits and '_', at most {MAX_TEMPLATE_NAME}, beginning with a letter"
        raise InvalidInput(f"name: {message}", fields={"name": message})
    _check_mask(mask, confirm=confirm)
    reading = check_template(document)
    if reading.workflow is None:
        raise TemplateRefused(reading.problems)
    _check_startable(reading.workflow, mask)
    with transaction.atomic():
        _lock(name)
        newest = Template.objects.filter(name=name).aggregate(newest=Max("version"))["newest"]
        template = Template.objects.create(
            name=name,
            version=(newest or 0) + 1,
            status_since=timezone.now(),
            mask=mask,
            cleanup=CleanupStrategy(cleanup),
            keep_logs=keep_logs,
            delete_input=delete_input,
            description=description,
            document=document,
            workflow=to_json(reading.workflow),
            created_by=actor,
        )
        audit.record(actor=actor, action="load", target=f"template {template}", reason=reason)
    return template


def _check_mask(mask: str, *, confirm: bool) -> None:
    if not mask:
        return
    masks.compile_mask(mask)
    if masks.matches_everything(mask) and not confirm:
        message = "the mask matches every dataset"
        cure = "Send confirm: true if that is meant"
        raise InvalidInput(f"mask: {message}", fields={"mask": f"{message}. {cure}"}, cure=cure)


def _check_startable(workflow: Workflow, mask: str) -> None:
    if mask and workflow.dataset_input is None:
        message = "a template with a mask needs an input of type Directory for the announced dataset"
        raise InvalidInput(f"mask: {message}", fields={"mask": message})
    needed = [one.id for one in workflow.inputs if one.required and one != workflow.dataset_input]
    if mask and needed:
        message = f"inputs without a default cannot be given by an announcement: {', '.join(needed)}"
        raise InvalidInput(f"mask: {message}", fields={"mask": message}, cure="Give them defaults")
    leaves = len(build_graph(workflow).leaves)
    if leaves > settings.CHAIN_MAX_STEPS:
        message = f"it has {leaves} steps, at most {settings.CHAIN_MAX_STEPS} are allowed"
        raise InvalidInput(f"document: {message}", fields={"document": message})


def clone_template(*, template: Template, name: str, actor: str, reason: str, **changes: Any) -> Template:
    """Store the document of a version under a name, with other settings where given."""
    kept = {field: getattr(template, field) for field in EDITABLE}
    return load_template(
        name=name, document=template.document, actor=actor, reason=reason, **(kept | changes)
    )


def change_template(
    *, template: Template, changes: Mapping[str, Any], actor: str, reason: str, confirm: bool = False
) -> Template:
    """Change mask, cleanup and the other settings of a version. The document never changes."""
    audit.need_reason(reason)
    _check_mask(str(changes.get("mask", "")), confirm=confirm)
    with transaction.atomic():
        row = Template.objects.select_for_update().get(pk=template.pk)
        for field in EDITABLE:
            if field in changes:
                setattr(row, field, changes[field])
        row.save(update_fields=list(EDITABLE))
        audit.record(
            actor=actor, action="edit", target=f"template {row}", reason=reason, changes=dict(changes)
        )
    return row


def activate_template(*, template: Template, actor: str, reason: str) -> Template:
    """Make a version the actual one. The version that was actual before is archived."""
    with transaction.atomic():
        _lock(template.name)
        for other in Template.objects.filter(name=template.name, status=TemplateStatus.ACTUAL).exclude(
            pk=template.pk
        ):
            _move(other, TemplateStatus.ARCHIVED, actor=actor, reason=f"{template} became actual: {reason}")
        return _move(template, TemplateStatus.ACTUAL, actor=actor, reason=reason)


def archive_template(*, template: Template, actor: str, reason: str) -> Template:
    """Archive a version: it starts no chains any more."""
    with transaction.atomic():
        return _move(template, TemplateStatus.ARCHIVED, actor=actor, reason=reason)


def delete_template(*, template: Template, actor: str, reason: str) -> Template:
    """Delete a version that was never actual."""
    audit.need_reason(reason)
    with transaction.atomic():
        row = Template.objects.select_for_update().get(pk=template.pk)
        if row.status != TemplateStatus.LOADED:
            raise Conflict(f"{row} is {row.status}; only loaded versions can be deleted", cure="Archive it")
        audit.record(actor=actor, action="delete", target=f"template {row}", reason=reason)
        row.delete()
    return template


def _move(template: Template, to: TemplateStatus, *, actor: str, reason: str) -> Template:
    audit.need_reason(reason)
    row = Template.objects.select_for_update().get(pk=template.pk)
    current = TemplateStatus(row.status)
    if to not in TEMPLATES[current].leads_to:
        legal = ", ".join(TEMPLATES[current].leads_to)
        raise Conflict(f"{row} is {current} and cannot become {to}", cure=f"It can become {legal}")
    row.status, row.status_since = to, timezone.now()
    row.save(update_fields=["status", "status_since"])
    audit.record(actor=actor, action=to, target=f"template {row}", reason=reason, before=current)
    return row


def _lock(name: str) -> None:
    """Serialise changes of the versions of one template, until the transaction ends."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_xact_lock(%s)", [lock_key(f"template {name}")])
