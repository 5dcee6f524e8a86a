"""Console forms of operations, derived from the fields of their input.

A form only presents and collects text: the input's own validation decides, so that the console refuses
exactly what REST refuses.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django import forms
from rest_framework import serializers

from wms2_project.api.errors import field_messages
from wms2_project.api.views import DRY_RUN, Input
from wms2_project.console import (
    UnfoldAdminIntegerFieldWidget,
    UnfoldAdminSelectWidget,
    UnfoldAdminTextareaWidget,
    UnfoldAdminTextInputWidget,
    UnfoldBooleanWidget,
)
from wms2_project.operations import Operation

VERSION = "version"
LONG = ("reason",)
ONLY_JSON = "only_json"  # the style of a field that no form and no command offers
FILE = "file"  # the style of a text that commands read from a file


class OperationForm(forms.Form):
    """Collects the input of one operation; `body` is the validated result."""

    input: type[Input]
    body: dict[str, Any]
    version: int | None

    def clean(self) -> dict[str, Any]:
        """Validate what was typed with the operation's input."""
        typed = super().clean() or {}
        self.version = typed.pop(VERSION, None)
        fields = self.input().fields
        data = {}
        for name in self.changed_data:  # filled in, or different from the present value the form showed
            if name in typed and name != VERSION:
                data[name] = _value(fields[name], typed[name])
        body = self.input(data=data)
        if body.is_valid():
            self.body = dict(body.validated_data)
        else:
            for name, message in field_messages(body.errors).items():
                self.add_error(name if name in self.fields else None, message)
        return typed


def form_for(operation: Operation, *, with_key: bool = False) -> type[OperationForm]:
    """Return the form class of an operation; `with_key`, it also has fields for the key of a new row."""
    fields: dict[str, forms.Field] = {}
    kind, new = operation.input, operation.target.new
    if with_key and new is not None:
        kind = type(kind.__name__, (kind, new), {})
    given: dict[str, Any] = dict(kind().fields)
    key = operation.target.parts if with_key else []
    for name in sorted(given, key=lambda one: (one not in key, one == "reason")):  # key first, reason last
        if name != DRY_RUN and not given[name].style.get(ONLY_JSON):
            fields[name] = _form_field(name, given[name], prefilled=operation.initial is not None)
    if operation.checks_version:
        fields[VERSION] = forms.IntegerField(widget=forms.HiddenInput, required=False)
    return type("Form", (OperationForm,), {**fields, "input": kind})


def present_values(operation: Operation, row: Any) -> dict[str, Any]:
    """Return the present values of a row as the form shows them."""
    values = {} if operation.initial is None else dict(operation.initial(row))
    shown = {name: _text(value) for name, value in values.items()}
    version = getattr(row, VERSION, None)
    return shown | ({VERSION: version} if operation.checks_version and version is not None else {})


def typed_so_far(form: OperationForm, suggested: dict[str, Any]) -> dict[str, Any] | None:
    """Return the validated input of an unfinished form, as if it had a reason; None if a field is wrong."""
    fields = form.input().fields
    if form.is_bound:
        data = {**dict(form.data.items()), "reason": form.data.get("reason") or "preview"}
        copy = type(form)(data, initial=form.initial)
        return copy.body if copy.is_valid() else None
    values = {name: parse_text(fields[name], text) for name, text in suggested.items() if name in fields}
    body = form.input(data=values | {"reason": "preview"})
    return dict(body.validated_data) if body.is_valid() else None


def _form_field(name: str, field: Any, *, prefilled: bool) -> forms.Field:
    common: dict[str, Any] = {
        "required": False,
        "help_text": field.help_text or "",
        "label": field.label,
        "show_hidden_initial": prefilled and name not in LONG,
    }
    if isinstance(field, serializers.BooleanField):
        return forms.BooleanField(widget=UnfoldBooleanWidget, **common)
    if isinstance(field, serializers.ChoiceField):
        kept = [] if field.required else [("", "keep" if prefilled else "default")]
        return forms.ChoiceField(
            choices=[*kept, *field.choices.items()], widget=UnfoldAdminSelectWidget, **common
        )
    widget: Any = UnfoldAdminTextInputWidget
    if name in LONG or isinstance(field, serializers.ListField):
        widget = UnfoldAdminTextareaWidget(attrs={"rows": 3 if name in LONG else 2})
    elif isinstance(field, serializers.IntegerField):
        widget = UnfoldAdminIntegerFieldWidget
    elif isinstance(field, serializers.DateTimeField):
        widget = UnfoldAdminTextInputWidget(attrs={"placeholder": "YYYY-MM-DD HH:MM"})
    return forms.CharField(widget=widget, **common)


def _text(value: Any) -> Any:
    if isinstance(value, Mapping):
        return " ".join(f"{key}={one}" for key, one in sorted(value.items()))
    if isinstance(value, list | tuple):
        return " ".join(map(str, value))
    return value if isinstance(value, bool) else "" if value is None else str(value)


def _value(field: Any, text: Any) -> Any:
    """Return the value of a text.

    A text that cannot be parsed is returned unchanged, and the input refuses it.
    """
    if not isinstance(text, str):
        return text
    return parse_text(field, text)


def parse_text(field: Any, text: str) -> Any:
    """Read typed text as the JSON value a field of an input takes."""
    if isinstance(field, serializers.ListField):
        return text.split()
    if isinstance(field, serializers.DictField):
        return dict(_pair(field, part) for part in text.split())
    if not text:
        return None
    if isinstance(field, serializers.IntegerField):
        return int(text) if text.lstrip("-").isdecimal() else text
    if isinstance(field, serializers.FloatField):
        try:
            return float(text)
        except ValueError:
            return text
    return text


def _pair(field: Any, part: str) -> tuple[str, Any]:
    key, _, text = part.partition("=")
    return key, parse_text(field.child, text)
