"""Operations on templates."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from uuid import uuid4

from chains_app.api.inputs import CloneInput, StartInput, TemplateChanges, TemplateInput
from chains_app.api.serializers import AnnouncementRow, TemplateRow
from chains_app.models import Template
from chains_app.selectors.templates import template_version
from chains_app.services import templates
from chains_app.services.announcing import announce
from chains_app.states import TEMPLATES, AnnouncementStatus, TemplateStatus
from wms2_project.errors import Conflict, InvalidInput
from wms2_project.operations import Call, Done, Operation, Run, Target, Weight

NEW_TEMPLATE = Target(
    kind="template",
    route="templates",
    body=TemplateRow,
    render=lambda call, done: TemplateRow(done.row).data,
)
TEMPLATE = Target(
    kind="template",
    route="templates/<template_name:template>/<int:number>",
    find=lambda template, number: template_version(template, int(number)),
    body=TemplateRow,
    render=lambda call, done: TemplateRow(done.row).data,
)


def _load(call: Call) -> Done:
    row = templates.load_template(**call.values, **call.signed)
    return Done(row, f"{row} is loaded. Activate it to start chains.")


def _clone(call: Call) -> Done:
    row = templates.clone_template(template=call.row, **call.values, **call.signed)
    return Done(row, f"{row} is loaded.")


def _change(call: Call) -> Done:
    values = dict(call.values)
    confirm = bool(values.pop("confirm", False))
    row = templates.change_template(template=call.row, changes=values, confirm=confirm, **call.signed)
    return Done(row, f"{row} is changed.")


def _moves(service: Callable[..., Template], message: str) -> Run:
    return lambda call: Done(service(template=call.row, **call.signed), message)


def _may_become(status: TemplateStatus) -> Callable[[Any], bool]:
    return lambda row: status in TEMPLATES[TemplateStatus(row.status)].leads_to


def _start(call: Call) -> Done:
    template: Template = call.row
    if template.status != TemplateStatus.ACTUAL:
        raise Conflict(f"{template} is {template.status}", cure="Activate it first")
    row = announce(
        uid=f"manual:{uuid4()}",
        name=call.values.get("dataset", ""),
        template=template.name,
        parameters=call.values.get("parameters"),
        priority=call.values.get("priority"),
        **call.signed,
    )
    if row.status != AnnouncementStatus.MATCHED:
        raise InvalidInput(row.reason, fields={"parameters": row.reason})
    return Done(row, f"Chain {row.chains.get().pk} is started.")


TEMPLATE_OPERATIONS = (
    Operation(
        target=NEW_TEMPLATE,
        name="load",
        label="Load a template",
        effect="The document is checked and stored as the next version of its name. It starts no chains yet.",
        input=TemplateInput,
        run=_load,
        path="",
        status=201,
        problems=(),
        checks_version=False,
        in_console=False,
        icon="upload_file",
        weight=Weight.USUAL,
    ),
    Operation(
        target=TEMPLATE,
        name="activate",
        label="Activate",
        effect="Announced datasets that match its mask start chains. The actual version is archived.",
        run=_moves(templates.activate_template, "It starts chains from now on."),
        allows=_may_become(TemplateStatus.ACTUAL),
        allowed_in="while it is loaded or archived",
        checks_version=False,
        icon="play_arrow",
        weight=Weight.USUAL,
    ),
    Operation(
        target=TEMPLATE,
        name="archive",
        label="Archive",
        effect="It starts no chains any more. Chains that began with it continue.",
        run=_moves(templates.archive_template, "It starts no chains any more."),
        allows=_may_become(TemplateStatus.ARCHIVED),
        allowed_in="while it is loaded or actual",
        checks_version=False,
        icon="archive",
        weight=Weight.CAREFUL,
    ),
    Operation(
        target=TEMPLATE,
        name="start",
        label="Start a chain",
        effect="A chain of the actual version starts, with the dataset and parameters given.",
        input=StartInput,
        run=_start,
        allows=lambda row: row.status == TemplateStatus.ACTUAL,
        allowed_in="while it is actual",
        checks_version=False,
        body=AnnouncementRow,
        render=lambda call, done: AnnouncementRow(done.row).data,
        in_console=False,
        icon="rocket_launch",
        weight=Weight.USUAL,
    ),
    Operation(
        target=TEMPLATE,
        name="clone",
        label="Clone",
        effect="The document is stored as a new version, under the same or another name.",
        input=CloneInput,
        run=_clone,
        status=201,
        initial=lambda row: {"name": row.name},
        checks_version=False,
        icon="content_copy",
    ),
    Operation(
        target=TEMPLATE,
        name="edit",
        label="Change settings",
        effect="Mask, cleanup and description change. Chains that run keep the document they began with.",
        input=TemplateChanges,
        run=_change,
        method="PATCH",
        path="",
        initial=lambda row: {name: getattr(row, name) for name in templates.EDITABLE},
        checks_version=False,
        icon="tune",
    ),
    Operation(
        target=TEMPLATE,
        name="remove",
        label="Delete",
        effect="The version is deleted. Only versions that were never actual can be deleted.",
        run=_moves(templates.delete_template, "The version is deleted."),
        method="DELETE",
        path="",
        allows=lambda row: row.status == TemplateStatus.LOADED,
        allowed_in="while it is loaded",
        checks_version=False,
        icon="delete",
        weight=Weight.FINAL,
    ),
)
