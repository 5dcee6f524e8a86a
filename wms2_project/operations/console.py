"""Console buttons of operations."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.urls import reverse

from wms2_project.console import ActionVariant, ReadOnlyAdmin, action, address_of, row_at
from wms2_project.operations import Operation, Weight, caller_of, make_call
from wms2_project.operations.forms import OperationForm, form_for, present_values

VARIANTS = {
    Weight.PLAIN: ActionVariant.DEFAULT,
    Weight.USUAL: ActionVariant.PRIMARY,
    Weight.CAREFUL: ActionVariant.WARNING,
    Weight.FINAL: ActionVariant.DANGER,
}


class OperationAdmin(ReadOnlyAdmin):
    """Pages with a button for each operation whose state allows it, and bulk actions in the list."""

    operations: ClassVar[tuple[Operation, ...]] = ()

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """Make the methods the admin calls for buttons and bulk actions."""
        super().__init_subclass__(**kwargs)
        shown = [one for one in cls.operations if one.in_console]
        for one in shown:
            options: dict[str, Any] = {"description": one.label, "permissions": ["operate"]}
            look = {"icon": one.icon, "variant": VARIANTS[one.weight]}
            setattr(cls, one.name, action(**options, **look)(_button(one)))
            if one.bulk:
                bulk = options | {"description": f"{one.label} the selected {one.target.plural}"}
                setattr(cls, f"{one.name}_selected", action(**bulk)(_bulk(one)))
        cls.actions_detail = [one.name for one in shown]
        cls.actions = tuple(f"{one.name}_selected" for one in shown if one.bulk)

    def target_rows(self, request: HttpRequest) -> QuerySet[Any]:
        """Return the rows operations act on; admins add what their operations read."""
        rows: QuerySet[Any] = self.model._default_manager.all()
        return rows

    def get_actions_detail(self, request: HttpRequest, object_id: Any) -> list[Any]:
        """Return the buttons of the operations that the row's state allows."""
        row = row_at(self.target_rows(request), object_id)
        return self.buttons(request, object_id, {one.name: one.allows(row) for one in self.operations})

    def ask_for(self, request: HttpRequest, operation: Operation, object_id: str) -> HttpResponse:
        """Show the operation's form; when it is confirmed, run the operation."""
        row = row_at(self.target_rows(request), object_id)
        initial = present_values(operation, row)
        filled = {name: value for name, value in request.GET.items() if name in operation.input().fields}
        return self.ask(
            request,
            title=operation.label,
            effect=operation.effect,
            targets=[row],
            apply=_applied(request, operation),
            back=address_of(f"admin:{self._pages}_change", row.pk),
            form_class=form_for(operation),
            initial=initial,
            filled=filled,
        )

    def ask_for_all(self, request: HttpRequest, operation: Operation, rows: QuerySet[Any]) -> HttpResponse:
        """Show the operation's form for several rows."""
        return self.ask(
            request,
            title=operation.label,
            effect=operation.effect,
            targets=self.target_rows(request).filter(pk__in=rows.values("pk")),
            apply=_applied(request, operation),
            back=reverse(f"admin:{self._pages}_changelist"),
            form_class=form_for(operation),
            bulk_action=f"{operation.name}_selected",
        )

    @property
    def _pages(self) -> str:
        return f"{self.model._meta.app_label}_{self.model._meta.model_name}"


def _button(operation: Operation) -> Any:
    def button(self: OperationAdmin, request: HttpRequest, object_id: str) -> HttpResponse:
        return self.ask_for(request, operation, object_id)

    button.__name__ = operation.name
    return button


def _bulk(operation: Operation) -> Any:
    def bulk(self: OperationAdmin, request: HttpRequest, rows: QuerySet[Any]) -> HttpResponse:
        return self.ask_for_all(request, operation, rows)

    bulk.__name__ = f"{operation.name}_selected"
    return bulk


def _applied(request: HttpRequest, operation: Operation) -> Callable[[Any, OperationForm], str]:
    def apply(row: Any, form: OperationForm) -> str:
        call, _ = make_call(row, caller_of(request), form.body, expected_version=form.version)
        operation.authorize(call)
        return operation.run(call).message

    return apply
