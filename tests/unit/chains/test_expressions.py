"""Expressions: references, comparisons, logic, interpolation, and refusals."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chains_app.cwl.expressions import ExpressionError, Reference, evaluate, evaluate_all, references

CONTEXT: dict[str, Any] = {
    "inputs": {
        "n": 3, "name": "muons", "flag": True, "none": None, "list": [10, 20], "items": "x",
        "keys": {"get": 1}, "ratio": 0.5, "nested": {"a b": [{"c": 7}]}, "length": 4,
        "file": {"class": "File", "location": "/data/run.1.root"},
    },
    "self": [1, 2, 3],
    "runtime": {"index": 5},
}  # fmt: skip


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("plain", "plain"),
        ("$(inputs.n)", 3),
        ("  $(inputs.n)\n", 3),
        ("run $(inputs.n) of $(inputs.name)", "run 3 of muons"),
        ("$(inputs.list)", [10, 20]),
        ("$(inputs.list)!", "[10, 20]!"),
        ("$(inputs.none)-", "null-"),
        ("$(inputs.flag)-", "true-"),
        ("$(inputs.list[1])", 20),
        ("$(inputs.list.length)", 2),
        ("$(inputs.length)", 4),
        ("$(inputs.items)", "x"),
        ("$(inputs.keys.get)", 1),
        ("$(inputs['keys'][\"get\"])", 1),
        ("$(inputs.nested['a b'][0].c)", 7),
        ("$(self)", [1, 2, 3]),
        ("$(self[0])", 1),
        ("$(self.length)", 3),
        ("$(runtime.index)", 5),
        ("$(null)", None),
        ("\\$(inputs.n)", "$(inputs.n)"),
        ("a\\\\b$(inputs.n)", "a\\b3"), ("a\\\\b", "a\\\\b"),
        ("$(inputs.n > 2)", True),
        ("$(inputs.n >= 3 && inputs.name == 'muons')", True),
        ("$(inputs.n > 2 and not inputs.flag)", False),
        ("$(!inputs.none || inputs.n < 1)", True),
        ("$((inputs.n == 4 or inputs.flag) and inputs.ratio < 1)", True),
        ("$(inputs.n === 3.0)", True),
        ("$(inputs.n == '3')", False),
        ("$(inputs.none == null)", True),
        ("$(inputs.absent == null)", True),
        ("$(inputs.none || 'fallback')", "fallback"),
        ("$(inputs.name != \"muons\")", False),
        ("$(inputs.n > -1)", True),
        ("$(true)", True),
        ("$(inputs.file.basename)", "run.1.root"),
        ("$(inputs.file.nameroot)$(inputs.file.nameext)", "run.1.root"),
    ],
)  # fmt: skip
def test_value(text: str, value: Any) -> None:
    found = evaluate(text, CONTEXT)

    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize(
    "text",
    [
        "${ return 1; }",
        "$(inputs.n + 1)",
        "$(Math.max(1, 2))",
        "$(inputs.list.map(x))",
        "$(inputs.n ? 1 : 2)",
        "$(inputs.n",
        "$()",
        "$(other.x)",
        "$(inputs.n = 3)",
        "$(inputs[inputs.n])",
        "$(inputs.a.b.__class__.__mro__ | 1)",
        "$(" + "(" * 100 + "true" + ")" * 100 + ")",
    ],
)
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(ExpressionError):
        evaluate(text, CONTEXT)


@pytest.mark.parametrize(
    "text",
    [
        "$(inputs.absent)",
        "$(inputs.list[2])",
        "$(inputs.n.real)",
        "$(inputs.name.upper)",
        "$(inputs.n < 'a')",
    ],
)
def test_reference_without_a_value_is_an_error(text: str) -> None:
    with pytest.raises(ExpressionError):
        evaluate(text, CONTEXT)


def test_refusal_names_the_place() -> None:
    with pytest.raises(ExpressionError) as refused:
        evaluate("abc $(inputs.n + 1)", CONTEXT)

    assert refused.value.offset >= len("abc $(inputs.n ")


def test_texts_inside_objects_and_lists_are_evaluated() -> None:
    value = {"a": ["$(inputs.n)", {"b": "x$(runtime.index)"}], "c": 1}

    assert evaluate_all(value, CONTEXT) == {"a": [3, {"b": "x5"}], "c": 1}
    assert references(value) == {Reference("inputs", ("n",)), Reference("runtime", ("index",))}


@given(st.dictionaries(st.from_regex(r"[a-z_]{1,12}", fullmatch=True), st.integers() | st.text(), min_size=1))
def test_every_key_resolves_like_any_other(inputs: dict[str, Any]) -> None:
    for key, value in inputs.items():
        assert evaluate(f"$(inputs.{key})", {"inputs": inputs}) == value


@given(st.text(max_size=60))
def test_any_text_is_evaluated_or_refused(text: str) -> None:
    with suppress(ExpressionError):
        evaluate(text, CONTEXT)
