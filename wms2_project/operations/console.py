"""Console buttons of operations."""

from __future__ import annotations

from typing import Any, ClassVar

from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.urls import reverse

from wms2_project.console import ActionVariant, ReadOnlyAdmin, action, address_of, row_at
from wms2_project.operations import Done, Operation, Weight, caller_of, make_call
from wms2_project.operations.forms import OperationForm, form_for, present_values

VARIANTS = {
    Weight.PLAIN: ActionVariant.DEFAULT,
    Weight.USUAL: ActionVariant.PRIMARY,
    Weight.CAREFUL: ActionVariant.WARNING,
    Weight.FINAL: ActionVariant.DANGER,
}


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
            look = {"icon": one.icon, "variant": VARIANTS[one.weight]}
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
        """Show the operation's form; when it is confirmed, run the operation."""
        row = row_at(self.target_rows(request), object_id)
        filled = {name: value for name, value in request.GET.items() if name in operation.input().fields}
        return self.ask(
            request,
            title=operation.label,
            effect=operation.effect,
            targets=[row],
            apply=lambda row, form: _run(request, operation, row, form).message,
            back=address_of(f"admin:{self._pages}_change", row.pk),
            form_class=form_for(operation),
            initial=present_values(operation, row),
            filled=filled,
        )

    def ask_for_all(self, request: HttpRequest, operation: Operation, rows: QuerySet[Any]) -> HttpResponse:
        """Show the operation's form for several rows."""
        return self.ask(
            request,
            title=operation.label,
            effect=operation.effect,
            targets=self.target_rows(request).filter(pk__in=rows.values("pk")),
            apply=lambda row, form: _run(request, operation, row, form).message,
            back=reverse(f"admin:{self._pages}_changelist"),
            form_class=form_for(operation),
            bulk_action=f"{operation.name}_selected",
        )

    def ask_for_new(self, request: HttpRequest, operation: Operation) -> HttpResponse:
        """Show the form of an operation that makes a row; a page shows what the operation reveals."""
        target, done = operation.target, list[Done]()

        def apply(_: str, form: OperationForm) -> str:
            row = target.row(*(form.body.pop(part) for part in target.parts))
            done.append(_run(request, operation, row, form))
            return done[0].message

        back = reverse(f"admin:{self._pages}_changelist")
        answer = self.ask(
            request,
            title=operation.label,
            effect=operation.effect,
            targets=[f"new {target.kind}"],
            apply=apply,
            back=back,
            form_class=form_for(operation, with_key=True),
        )
        if not (done and operation.reveals):
            return answer
        context = self.admin_site.each_context(request) | {
            "title": operation.label,
            "opts": self.model._meta,
            "back": back,
            "revealed": done[0].more[operation.reveals],
        }
        return TemplateResponse(request, "console/revealed.html", context)

    @property
    def _pages(self) -> str:
        return f"{self.model._meta.app_label}_{self.model._meta.model_name}"


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
