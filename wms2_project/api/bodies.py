"""Response bodies, derived from the dataclasses that carry them.

The type of a field decides type and nullability of the member. `Annotated` adds what a type cannot say:

- `Annotated[int, "Help text."]`, or other options of the DRF field: `Annotated[float, {"max_value": 1}]`;
- `Annotated[DAG, DAGRow]`: the serializer or DRF field to use, for model rows and special formats;
- `Annotated[bool, INTERNAL]`: the field is not part of the body.

`DERIVED` of the class names properties that are members, too, with their types.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from datetime import datetime
from enum import Enum
from functools import cache
from types import NoneType, UnionType
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints
from uuid import UUID

from rest_framework import serializers

INTERNAL = object()
Body = type[serializers.Serializer[Any]]
_PLAIN: dict[Any, Any] = {
    bool: serializers.BooleanField,
    int: serializers.IntegerField,
    float: serializers.FloatField,
    str: serializers.CharField,
    datetime: serializers.DateTimeField,
    UUID: serializers.UUIDField,
}


class _Verbatim(serializers.ListField):
    """A list of plain values, written as it is: a call per item takes most of the time of long lists."""

    def to_representation(self, data: Any) -> Any:
        return data


def _is_verbatim(hint: Any) -> bool:
    """Return whether JSON has the type: a number, a text, or a list of them."""
    if get_origin(hint) in (list, tuple):
        return _is_verbatim(get_args(hint)[0])
    return hint in (bool, int, float, str)


@cache
def body_of(kind: Any) -> Body:
    """Return the serializer of a dataclass. Its OpenAPI component has the name of the class and `Body`."""
    members, hints = {}, get_type_hints(kind, include_extras=True)
    for one in fields(kind):
        if INTERNAL not in getattr(hints[one.name], "__metadata__", ()):
            members[one.name] = _field(hints[one.name])
    members |= {name: _field(hint) for name, hint in getattr(kind, "DERIVED", {}).items()}
    name = f"{kind.__name__.removesuffix('Body')}Body"
    return type(name, (serializers.Serializer,), {**members, "__doc__": kind.__doc__})


def render(value: Any) -> dict[str, Any]:
    """Return a dataclass as its response body."""
    kind: Any = type(value)
    body: dict[str, Any] = body_of(kind)(value).data
    return body


def _field(hint: Any) -> Any:
    """Return the DRF field of a type: options from `Annotated`, null from `| None`, and the kind."""
    options: dict[str, Any] = {}
    kind: Any = None
    if get_origin(hint) is Annotated:
        hint, *extras = get_args(hint)
        for one in extras:
            if isinstance(one, type):
                kind = one
            else:
                options |= {"help_text": one} if isinstance(one, str) else one
    if get_origin(hint) in (Union, UnionType):
        (hint,) = {*get_args(hint)} - {NoneType}
        options["allow_null"] = True
    return _field_of_kind(hint, kind, options)


def _field_of_kind(hint: Any, kind: Any, options: dict[str, Any]) -> Any:
    many = get_origin(hint) in (list, tuple)
    inner = get_args(hint)[0] if many else hint
    kind = kind or (inner if is_dataclass(inner) else None)
    if kind is not None:
        made: Any = body_of(kind) if is_dataclass(kind) else kind  # type: ignore[arg-type]
        return made(many=True, **options) if many else made(**options)
    if many:
        made = _Verbatim if _is_verbatim(inner) else serializers.ListField
        return made(child=_field(inner), **options)
    if get_origin(hint) in (dict, Mapping):
        value = get_args(hint)[1]
        child = {} if value is Any else {"child": _field(value)}
        return serializers.DictField(**child, **options)
    if isinstance(hint, type) and issubclass(hint, Enum):
        return serializers.ChoiceField(choices=[one.value for one in hint], **options)
    if hint not in _PLAIN:
        raise TypeError(f"{hint} is not a type of a body: name its DRF field with Annotated")
    return _PLAIN[hint](**options)
