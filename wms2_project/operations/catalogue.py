"""The catalogue of operations as JSON, from which the command line client builds its commands."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Any

from rest_framework import serializers

from wms2_project.api.views import DRY_RUN
from wms2_project.operations import Operation
from wms2_project.operations.forms import FILE, ONLY_JSON

TYPES: tuple[tuple[type[Any], str], ...] = (  # the first that fits
    (serializers.BooleanField, "flag"),
    (serializers.IntegerField, "integer"),
    (serializers.FloatField, "number"),
    (serializers.ListField, "list"),
    (serializers.DictField, "pairs"),
)


def render_catalogue(operations: Iterable[Operation]) -> str:
    """Return the catalogue as a JSON document with one operation per line."""
    lines = ",\n".join(json.dumps(_entry(one), ensure_ascii=False) for one in operations)
    return f"[\n{lines}\n]\n"


def _entry(one: Operation) -> dict[str, Any]:
    fields: dict[str, Any] = dict(one.input().fields)
    return {
        "kind": one.target.kind,
        "name": one.name,
        "effect": one.effect,
        "method": one.method,
        "path": re.sub(r"<\w+:(\w+)>", r"{\1}", one.url),
        "key": dict(zip(one.target.parts, one.target.metavars, strict=True)),
        "fields": [
            _field(name, field)
            for name, field in fields.items()
            if name != DRY_RUN and not field.style.get(ONLY_JSON)
        ],
        "dry_run": one.preview is not None,
        "weight": one.weight.value,
        "reveals": one.reveals,
    }


def _field(name: str, field: Any) -> dict[str, Any]:
    word = next((word for kind, word in TYPES if isinstance(field, kind)), "text")
    found = {
        "name": name,
        "type": "file" if field.style.get(FILE) else word,
        "required": field.required,
        "help": str(field.help_text or field.label or ""),
    }
    return found | ({"choices": list(field.choices)} if isinstance(field, serializers.ChoiceField) else {})
