"""Templates: by name and version, and the actual ones by mask."""

from __future__ import annotations

from chains_app.cwl.types import Workflow, workflow_from_json
from chains_app.models import Template
from chains_app.states import TemplateStatus
from wms2_project.errors import NotFound


def template_version(name: str, version: int) -> Template:
    """Return one version of a template. Raise NotFound if it does not exist."""
    template = Template.objects.filter(name=name, version=version).first()
    if template is None:
        raise NotFound(f"There is no template {name} v{version}", cure="See GET /api/v1/templates")
    return template


def actual_template(name: str) -> Template | None:
    """Return the actual version of a template; None if there is none."""
    return Template.objects.filter(name=name, status=TemplateStatus.ACTUAL).first()


def actual_masks() -> dict[int, str]:
    """Return the masks of all actual templates by id."""
    rows = Template.objects.filter(status=TemplateStatus.ACTUAL).exclude(mask="")
    return dict(rows.order_by("name").values_list("id", "mask"))


def workflow_of(template: Template) -> Workflow:
    """Return the normalised workflow of a template."""
    return workflow_from_json(template.workflow)
