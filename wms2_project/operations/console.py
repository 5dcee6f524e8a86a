"""Console buttons of operations: a form with a preview of the effect, and one result per row."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from django.contrib import messages
from django.contrib.admin import helpers
from django.core.exceptions import PermissionDenied
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import reverse

from wms2_project.console import ActionVariant, ReadOnlyAdmin, action, address_of, row_at
from wms2_project.errors import StaleVersion, Wms2Error
from wms2_project.operations import Done, Operation, Weight, caller_of, make_call
from wms2_project.operations.effects import Effect, effect_of, stale_message
from wms2_project.operations.forms import VERSION, OperationForm, form_for, present_values, typed_so_far

# Only the usual operation has a filled button; those with consequences have the tone of their text.
LOOKS: dict[Weight, dict[str, Any]] = {
    Weight.PLAIN: {},
    Weight.USUAL: {"variant": ActionVariant.PRIMARY},
    Weight.CAREFUL: {"attrs": {"data-tone": "warning"}},
    Weight.FINAL: {"attrs": {"data-tone": "danger"}},
}
CONFIRMED, PREVIEW = "_confirmed", "_preview"  # what the form was sent for
STALE, REFUSED = 412, 409


@dataclass(frozen=True, slots=True)
class Result:
    """Result of an operation for one row of a selection."""

    target: str
    done: bool
    message: str
    url: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """One use of a form: the operation, its rows, and where it leads back to."""

    operation: Operation
    targets: Sequence[Any]
    form: OperationForm
    back: str
    bulk_action: str = ""


class OperationAdmin(ReadOnlyAdmin):
    """Pages with a button for each operation whose state allows it.

    Operations that make rows have a button above the list, bulk operations an action in the list.
    """

    operations: ClassVar[tuple[Operation, ...]] = ()

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """Make the methods the admin calls for buttons and bulk actions."""
        super().__init_subclass__(**kwargs)
        cls.actions_list, cls.actions_detail, cls.actions = [], [], []
        for one in cls.operations:
            if not one.in_console:
                continue
            look = {"icon": one.icon, **LOOKS[one.weight]}
            if one.target.find is None:
                cls._add(cls.actions_list, one.name, _list_button(one), one.label, **look)
                continue
            cls._add(cls.actions_detail, one.name, _button(one), one.label, **look)
            if one.target.new is not None:
                label = f"{one.name} a {one.target.kind}".capitalize()
                cls._add(cls.actions_list, f"add_{one.target.kind}", _list_button(one), label, **look)
            if one.bulk:
                label = f"{one.label} the selected {one.target.plural}"
                cls._add(cls.actions, f"{one.name}_selected", _bulk(one), label)

    @classmethod
    def _add(cls, shown: list[str], name: str, method: Any, label: str, **look: Any) -> None:
        method.__name__ = name
        setattr(cls, name, action(description=label, permissions=["operate"], **look)(method))
        shown.append(name)

    def target_rows(self, request: HttpRequest) -> QuerySet[Any]:
        """Return the rows operations act on; admins add what their operations read."""
        rows: QuerySet[Any] = self.model._default_manager.all()
        return rows

    def get_actions_detail(self, request: HttpRequest, object_id: Any) -> list[Any]:
        """Return the buttons of the operations that the row's state allows."""
        row = row_at(self.target_rows(request), object_id)
        allowed = {one.name for one in self.operations if one.allows(row)}
        shown: list[Any] = super().get_actions_detail(request, object_id)
        return [one for one in shown if one.action_name.removeprefix(f"{self._pages}_") in allowed]

    def ask_for(self, request: HttpRequest, operation: Operation, object_id: str) -> HttpResponse:
        """Show the operation's form; when it is confirmed, run the operation.

        A refusal shows the form again with what was typed. If the row has changed since the form was opened,
        nothing is done and the next confirmation is about the new state.
        """
        row = row_at(self.target_rows(request), object_id)
        ask = Ask(
            operation=operation,
            targets=[row],
            form=self._form(request, operation, row),
            back=address_of(f"admin:{self._pages}_change", row.pk),
        )
        self._check(request, ask)
        if not _is_confirmed(request, ask):
            return self._show(request, ask)
        try:
            messages.success(request, _run(request, operation, row, ask.form).message)
        except Wms2Error as error:
            stale = isinstance(error, StaleVersion)
            row.refresh_from_db()
            if stale:
                ask.form.data = {**request.POST.dict(), VERSION: row.version}
            named = stale_message(error, row) if isinstance(error, StaleVersion) else _named(row, error)
            messages.error(request, named)
            return self._show(request, ask, status=STALE if stale else REFUSED)
        return HttpResponseRedirect(ask.back)

    def ask_for_all(self, request: HttpRequest, operation: Operation, rows: QuerySet[Any]) -> HttpResponse:
        """Show the operation's form for several rows; when it is confirmed, one result per row."""
        targets = list(self.target_rows(request).filter(pk__in=rows.values("pk")))
        form = form_for(operation)
        ask = Ask(
            operation=operation,
            targets=targets,
            form=form(request.POST if _is_sent(request) else None),
            back=reverse(f"admin:{self._pages}_changelist"),
            bulk_action=f"{operation.name}_selected",
        )
        self._check(request, ask)
        if not _is_confirmed(request, ask):
            return self._show(request, ask)
        results = [self._result(request, ask, row) for row in targets]
        context = self._context(request, ask) | {
            "results": results,
            "done": sum(one.done for one in results),
        }
        return TemplateResponse(request, "console/results.html", context)

    def ask_for_new(self, request: HttpRequest, operation: Operation) -> HttpResponse:
        """Show the form of an operation that makes a row; a page shows what the operation reveals."""
        target = operation.target
        form = form_for(operation, with_key=True)
        ask = Ask(
            operation=operation,
            targets=[f"new {target.kind}"],
            form=form(request.POST if _is_sent(request) else None),
            back=reverse(f"admin:{self._pages}_changelist"),
        )
        self._check(request, ask)
        if not _is_confirmed(request, ask):
            return self._show(request, ask)
        try:
            row = target.row(*(ask.form.body.pop(part) for part in target.parts))
            done = _run(request, operation, row, ask.form)
        except Wms2Error as error:
            messages.error(request, _named(ask.targets[0], error))
            return self._show(request, ask, status=REFUSED)
        messages.success(request, done.message)
        if not operation.reveals:
            return HttpResponseRedirect(ask.back)
        context = self._context(request, ask) | {"revealed": done.more[operation.reveals]}
        return TemplateResponse(request, "console/revealed.html", context)

    def _form(self, request: HttpRequest, operation: Operation, row: Any) -> OperationForm:
        """Return the form with the row's present values, and those that a link suggests."""
        sent, initial = _is_sent(request), present_values(operation, row)
        filled = {name: value for name, value in request.GET.items() if name in operation.input().fields}
        form = form_for(operation)
        return form(request.POST if sent else None, initial=initial if sent else initial | filled)

    def _check(self, request: HttpRequest, ask: Ask) -> None:
        if not all(self.has_operate_permission(request, target) for target in ask.targets or [None]):
            raise PermissionDenied

    def _show(self, request: HttpRequest, ask: Ask, *, status: int = 200) -> HttpResponse:
        """Render the form with the effects, or for a preview the effects alone."""
        context = self._context(request, ask) | {"effects": self._effects(request, ask)}
        template = "console/effects.html" if PREVIEW in request.POST else "console/ask.html"
        return TemplateResponse(request, template, context, status=status)

    def _effects(self, request: HttpRequest, ask: Ask) -> list[Effect]:
        """Return the effect on each row with what is typed so far; nothing while that is not valid."""
        operation = ask.operation
        rows = [row for row in ask.targets if not isinstance(row, str)]  # new rows have no state yet
        body = typed_so_far(ask.form, {name: request.GET[name] for name in request.GET})
        if body is None:
            return []
        caller = caller_of(request)
        return [effect_of(operation, row, caller, body, others=self.operations) for row in rows]

    def _result(self, request: HttpRequest, ask: Ask, row: Any) -> Result:
        url = address_of(f"admin:{self._pages}_change", row.pk)
        try:
            return Result(str(row), True, _run(request, ask.operation, row, ask.form).message, url)
        except Wms2Error as error:
            return Result(str(row), False, str(error), url)

    def _context(self, request: HttpRequest, ask: Ask) -> dict[str, Any]:
        context: dict[str, Any] = self.admin_site.each_context(request)
        return context | {
            "title": ask.operation.label,
            "operation": ask.operation,
            "effect": ask.operation.effect,
            "opts": self.model._meta,
            "form": ask.form,
            "targets": ask.targets,
            "back": ask.back,
            "bulk_action": ask.bulk_action,
            "checkbox": helpers.ACTION_CHECKBOX_NAME,
        }

    @property
    def _pages(self) -> str:
        return f"{self.model._meta.app_label}_{self.model._meta.model_name}"


def _is_sent(request: HttpRequest) -> bool:
    return CONFIRMED in request.POST or PREVIEW in request.POST


def _is_confirmed(request: HttpRequest, ask: Ask) -> bool:
    return CONFIRMED in request.POST and ask.form.is_valid()


def _named(target: Any, error: Wms2Error) -> str:
    return str(error) if str(target) in str(error) else f"{target}: {error}"


def _button(operation: Operation) -> Any:
    return lambda self, request, object_id: self.ask_for(request, operation, object_id)


def _list_button(operation: Operation) -> Any:
    return lambda self, request: self.ask_for_new(request, operation)


def _bulk(operation: Operation) -> Any:
    return lambda self, request, rows: self.ask_for_all(request, operation, rows)


def _run(request: HttpRequest, operation: Operation, row: Any, form: OperationForm) -> Done:
    call, _ = make_call(row, caller_of(request), form.body, expected_version=form.version)
    operation.authorize(call)
    return operation.run(call)
