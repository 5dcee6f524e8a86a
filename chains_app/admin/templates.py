"""Console pages of templates: list, one version, new template with a live check, manual start of a chain."""

from __future__ import annotations

from typing import Any

from django import forms
from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import path, reverse
from rest_framework.exceptions import ValidationError

from chains_app.admin.starting import form_of_inputs, parameters_of
from chains_app.cwl.graph import build_graph
from chains_app.models import Template
from chains_app.operations import TEMPLATE_OPERATIONS
from chains_app.selectors.templates import workflow_of
from chains_app.services.templates import TemplateRefused
from chains_app.states import TEMPLATES
from wms2_project.access.roles import operates
from wms2_project.api.errors import field_messages
from wms2_project.api.views import parsed
from wms2_project.console import coloured, display, row_at
from wms2_project.errors import InvalidInput, Wms2Error
from wms2_project.operations import caller_of, make_call
from wms2_project.operations.console import OperationAdmin
from wms2_project.operations.forms import form_for

COLOURS: dict[str, str] = {status: one.colour for status, one in TEMPLATES.items()}
BY_NAME = {one.name: one for one in TEMPLATE_OPERATIONS}


@admin.register(Template)
class TemplateAdmin(OperationAdmin):
    """Templates: versions, documents and operations."""

    when_empty = "Load a template to start chains of requests from announced datasets."
    list_display = ("shown_name", "shown_status", "mask", "cleanup", "created_by", "created_at")
    list_filter = ("status", "cleanup")
    search_fields = ("name", "description", "mask")
    search_help_text = "Part of a name, description or mask"
    ordering = ("name", "-version")
    fieldsets = ((None, {"fields": ()}),)  # the page has a template of its own
    operations = tuple(one for one in TEMPLATE_OPERATIONS if one.in_console)
    shown_status = coloured(COLOURS)
    change_list_template = "admin/chains_app/template/change_list.html"

    @display(description="template", header=True)
    def shown_name(self, row: Template) -> list[str]:
        """Return name and version with the description below them."""
        return [str(row), row.description[:100]]

    def get_urls(self) -> list[Any]:
        """Add the pages that load a template and start a chain."""
        wrap = self.admin_site.admin_view
        own = [
            path("new/", wrap(self.new_view), name="chains_app_template_new"),
            path("<int:template_id>/start/", wrap(self.start_view), name="chains_app_template_start"),
        ]
        return own + list(super().get_urls())

    def changelist_view(self, request: HttpRequest, extra_context: Any = None) -> HttpResponse:
        """Show the list; operators can load a template from it."""
        context = {"operates": operates(request.user)} | (extra_context or {})
        answer: HttpResponse = super().changelist_view(request, context)
        return answer

    def change_view(
        self, request: HttpRequest, object_id: str, form_url: str = "", extra_context: Any = None
    ) -> HttpResponse:
        """Show a version with its steps, inputs and document."""
        template = row_at(self.get_queryset(request), object_id)
        workflow = workflow_of(template)
        context = {
            "template": template,
            "tone": TEMPLATES[template.status].colour,
            "why": TEMPLATES[template.status].why,
            "inputs": workflow.inputs,
            "leaves": build_graph(workflow).leaves,
            "chains": template.chains.select_related("announcement").order_by("-id")[:20],
            "operates": operates(request.user),
        }
        answer: HttpResponse = super().change_view(
            request, object_id, form_url, context | (extra_context or {})
        )
        return answer

    def new_view(self, request: HttpRequest) -> HttpResponse:
        """Show the form of a new template; load the template when the form is submitted."""
        operation = BY_NAME["load"]
        form = form_for(operation)(request.POST or None)
        form.order_fields(["name", "document"])
        form.fields["document"].widget = forms.Textarea(attrs={"rows": 24, "spellcheck": "false"})
        problems: list[Any] = []
        if self._sent(request) and form.is_valid():
            call, _ = make_call(None, caller_of(request), form.body)
            try:
                row = operation.run(call).row
                messages.success(request, f"{row} is loaded. Activate it to start chains.")
                return HttpResponseRedirect(reverse("admin:chains_app_template_change", args=[row.pk]))
            except TemplateRefused as error:
                problems = error.problems
            except InvalidInput as error:
                _add_errors(form, error)
            except Wms2Error as error:
                form.add_error(None, str(error))
        return self._page(request, "new", form=form, problems=problems, title="Load a template")

    def start_view(self, request: HttpRequest, template_id: int) -> HttpResponse:
        """Show a form built from the template's inputs; start a chain when the form is submitted."""
        template = row_at(self.get_queryset(request), str(template_id))
        workflow = workflow_of(template)
        form = form_of_inputs(workflow)(request.POST or None)
        if self._sent(request) and form.is_valid():
            try:
                body = parsed(BY_NAME["start"].input, parameters_of(workflow, form.cleaned_data))
                call, _ = make_call(template, caller_of(request), body)
                done = BY_NAME["start"].run(call)
                messages.success(request, done.message)
                return HttpResponseRedirect(
                    reverse("admin:chains_app_chain_change", args=[done.row.chains.get().pk])
                )
            except ValidationError as error:
                for message in field_messages(error.detail).values():
                    form.add_error(None, message)
            except Wms2Error as error:
                form.add_error(None, str(error))
        return self._page(
            request, "start", form=form, template=template, title=f"Start a chain of {template}"
        )

    def _sent(self, request: HttpRequest) -> bool:
        if not operates(request.user):
            raise PermissionDenied
        return request.method == "POST"

    def _page(self, request: HttpRequest, name: str, **values: Any) -> HttpResponse:
        context = {**self.admin_site.each_context(request), "opts": self.opts, **values}
        return TemplateResponse(request, f"admin/chains_app/template/{name}.html", context)


def _add_errors(form: forms.Form, error: InvalidInput) -> None:
    for name, message in (error.fields or {"": str(error)}).items():
        form.add_error(name if name in form.fields else None, message)
