"""Form that starts a chain manually, built from the inputs of its template."""

from __future__ import annotations

import json
from typing import Any

from django import forms

from chains_app.cwl.types import Port, Workflow
from chains_app.cwl.values import described
from wms2_project.console import (
    UnfoldAdminSelectWidget,
    UnfoldAdminTextareaWidget,
    UnfoldAdminTextInputWidget,
    UnfoldBooleanWidget,
)

PREFIX = "input_"


def form_of_inputs(workflow: Workflow) -> type[forms.Form]:
    """Return a form class with one field per input, and the reason."""
    fields: dict[str, forms.Field] = {f"{PREFIX}{port.id}": _field(port) for port in workflow.inputs}
    fields["reason"] = forms.CharField(
        widget=UnfoldAdminTextareaWidget(attrs={"rows": 2}), help_text="Recorded in the audit with your name."
    )
    return type("StartForm", (forms.Form,), fields)


def parameters_of(workflow: Workflow, cleaned: dict[str, Any]) -> dict[str, Any]:
    """Return the body of the start operation for a completed form."""
    main = workflow.dataset_input
    parameters, dataset = {}, ""
    for port in workflow.inputs:
        value = _value(port, cleaned.get(f"{PREFIX}{port.id}"))
        if value is None:
            continue
        if port is main and isinstance(value, str):
            dataset = value
        else:
            parameters[port.id] = value
    body: dict[str, Any] = {"reason": cleaned["reason"], "parameters": parameters}
    return body | ({"dataset": dataset} if dataset else {})


def _field(port: Port) -> forms.Field:
    common: dict[str, Any] = {
        "label": port.id,
        "required": port.required,
        "help_text": f"{port.label} ({described(port)})".strip() if port.label else described(port),
        "initial": port.default if isinstance(port.default, str | int | float) else _shown(port.default),
    }
    enum = next((one for one in port.types if one.startswith("enum:")), "")
    if enum:
        choices = [(one, one) for one in enum[5:].split(",")]
        return forms.ChoiceField(
            choices=choices if port.required else [("", "–"), *choices],
            widget=UnfoldAdminSelectWidget,
            **common,
        )
    if "boolean" in port.types:
        return forms.BooleanField(widget=UnfoldBooleanWidget, **(common | {"required": False}))
    return forms.CharField(widget=UnfoldAdminTextInputWidget, **common)


def _shown(value: Any) -> str:
    return "" if value is None else json.dumps(value)


def _value(port: Port, text: Any) -> Any:
    """Return the value of a field. Lists are JSON or words separated by spaces."""
    if isinstance(text, bool):
        return text
    if text in (None, ""):
        return None
    kinds = [one for one in port.types if one != "null"]
    if any(one in ("int", "long", "float", "double") or one.endswith("[]") for one in kinds):
        try:
            return json.loads(text)
        except ValueError:
            return text.split() if any(one.endswith("[]") for one in kinds) else text
    return text
