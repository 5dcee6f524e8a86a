"""Generator of docs/request-fields.md, the reference of document fields."""

from __future__ import annotations

from typing import Any

from requests_app.documents.parsers import Kind
from requests_app.documents.table import DOCUMENT, SPLITTING, Field, Read

HEAD = """# Fields of a request document

Written by `./wms2 manage reference request-fields`; do not edit. A document may use WMS2's names, ReqMgr2's,
or both. In a chain, *step* says where a field may be stated: `first` in the first step, `every` in each.
Every field may be stated for the whole request. *Edit* marks what can still be changed after submission;
of a draft, everything but name and owner. Other names that begin with a capital letter are passed to the
payload, unless they resemble one of these: such a name is refused as misspelt.
"""
_BELOW = """
## Splitting parameters

Inside `splitting_params`. Those with a name of ReqMgr2's may also be stated beside it. All are stored in
`workflow.splitting_params`.
"""
_STEP = {Read.FIRST: "first", Read.OWN_FIRST: "first", Read.STEPS: "every"}


_TITLES = ("field", "ReqMgr2", "values", "default", "step", "stored in", "edit", "description")


def render_reference() -> str:
    """Return the Markdown document."""
    head = [_row(*_TITLES), _row(*("---" for _ in _TITLES))]
    return "\n".join([HEAD, *head, *map(_field, DOCUMENT), _BELOW, *head, *map(_field, SPLITTING), ""])


def _row(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"


def _field(one: Field) -> str:
    columns, other = ", ".join(f"`{column}`" for column in one.columns), f"`{one.reqmgr2}`"
    return _row(
        f"`{one.name}`", other if one.reqmgr2 else "", _values(one.kind), _default(one.default),
        _STEP.get(one.read, ""), columns, "yes" if one.editable else "", one.description,
    )  # fmt: skip


def _default(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | float):
        return f"{value:,}"
    return str(value) if value else ""


def _values(kind: Kind[Any]) -> str:
    """Return the type and limits in words."""
    schema = kind.schema
    if schema["type"] == "integer":
        return f"whole number, {schema['minimum']:,} to {schema['maximum']:,}"
    if schema["type"] == "number":
        return f"number above 0, at most {schema['maximum']:,.0f}"
    if kind.entry is not None:
        return f"list of at most {schema['maxItems']:,}: {_values(kind.entry)}"
    if "properties" in schema:
        each = (f"{name} 1 to {one['maximum']:,}" for name, one in schema["properties"].items())
        return f"object: {', '.join(each)}"
    if "enum" in schema:
        return " or ".join(f"`{one}`" for one in schema["enum"])
    longest = f"; at most {schema['maxLength']} characters" if "maxLength" in schema else ""
    return {"boolean": "true or false", "object": "object"}.get(schema["type"], kind.expected + longest)
