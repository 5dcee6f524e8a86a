"""Oversized and malformed documents are refused quickly and by name."""

from __future__ import annotations

import math
from datetime import UTC, datetime
from typing import Any

import pytest
from document_examples import ALL, MONTE_CARLO, OWN, TEMPLATE, changed

from requests_app.documents import check_size, compose_name, fresh_name, read_document
from requests_app.documents.limits import MAX_CHARACTERS, MAX_DEPTH, MAX_VALUES
from wms2_project.errors import InvalidInput
from wms2_project.grammar import Name, matches


def nested(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.parametrize("shape", ALL)
def test_ordinary_documents_pass(shape: str) -> None:
    check_size(ALL[shape])


def test_limits_are_inclusive() -> None:
    check_size(nested(MAX_DEPTH))
    check_size([0] * (MAX_VALUES - 1))
    check_size("x" * MAX_CHARACTERS)
    check_size({"a": 2**63 - 1, "b": -(2**63) + 1})


@pytest.mark.parametrize(
    ("raw", "field"),
    [
        (nested(MAX_DEPTH + 1), "[0]" * MAX_DEPTH),
        ({"a": nested(100_000)}, "a" + "[0]" * (MAX_DEPTH - 1)),
        ([0] * MAX_VALUES, "document"),
        ("x" * (MAX_CHARACTERS + 1), "document"),
        ({"x" * (MAX_CHARACTERS + 1): 1}, "document"),
        ({"a": {"b": math.nan}}, "a.b"),
        ({"a": [1, -math.inf]}, "a[1]"),
        ({"a": 2**63}, "a"),
        ({"a": 10**5000}, "a"),
        ({"a": "x\0y"}, "a"),
        ({"a": "\ud800"}, "a"),
        ({"a": {"k\0": 1}}, "a"),
        ({"a": {1: 2}}, "a"),
        ({"a": {1, 2}}, "a"),
        ({"a": b"bytes"}, "a"),
    ],
)
def test_beyond_the_limits_is_refused(raw: Any, field: str) -> None:
    with pytest.raises(InvalidInput) as error:
        check_size(raw)

    assert set(error.value.fields) == {field}


def test_many_small_lists_are_counted_together() -> None:
    with pytest.raises(InvalidInput) as error:
        check_size([[0] * 1000] * 1000)

    assert "above 200000 values" in next(iter(error.value.fields.values()))


def test_values_json_cannot_represent_are_reported_with_other_errors() -> None:
    with pytest.raises(InvalidInput) as error:
        read_document(changed(OWN, memory_mb=math.nan, priority=-1, payload_config={"x": math.inf}))

    assert set(error.value.fields) == {"memory_mb", "priority", "payload_config.x"}


def test_a_self_containing_document_is_refused() -> None:
    loop: dict[str, Any] = {}
    loop["a"] = loop

    with pytest.raises(InvalidInput):
        check_size(loop)


def test_odd_overrides_are_refused() -> None:
    with pytest.raises(InvalidInput) as error:
        read_document(OWN, overrides={"priority": math.nan})

    assert set(error.value.fields) == {"priority"}


def test_number_of_messages_is_bounded() -> None:
    with pytest.raises(InvalidInput) as error:
        read_document({f"field{i}": 1 for i in range(5000)})

    assert len(error.value.fields) == 100


def test_names_in_messages_are_short_and_harmless() -> None:
    with pytest.raises(InvalidInput) as error:
        read_document({**OWN, "evil\nname" + "x" * 500: 1})

    (path,) = error.value.fields
    assert path.startswith("evil\\nname")
    assert len(path) < 80


# --- request names ---------------------------------------------------------------------------------------


def test_name_is_composed_in_reqmgr2_fashion() -> None:
    now = datetime(2031, 2, 3, 4, 5, 6, tzinfo=UTC)

    assert (
        compose_name(requestor="ana", request_string="Toys", now=now, number=42)
        == "ana_Toys_310203_040506_0042"
    )


def test_long_parts_still_make_a_legal_name() -> None:
    now = datetime(2031, 2, 3, tzinfo=UTC)

    assert matches(
        Name.REQUEST, compose_name(requestor="a" * 200, request_string="b" * 200, now=now, number=10**9)
    )
    assert fresh_name("ana", "Toys").startswith("ana_Toys_")


def test_nameless_request_is_named_by_the_caller_s_rule() -> None:
    asked: list[tuple[str, str]] = []

    def rule(requestor: str, request_string: str) -> str:
        asked.append((requestor, request_string))
        return "given_name"

    spec = read_document(TEMPLATE, defaults={"requestor": "gus"}, new_name=rule)
    read_document(changed(MONTE_CARLO, RequestName=..., RequestString="Toys"), new_name=rule)
    read_document(MONTE_CARLO, new_name=rule)

    assert spec.request_name == "given_name"
    assert asked == [("gus", "AGAIN-2031B-00002"), ("eve", "Toys")]


def test_caller_may_name_the_request() -> None:
    assert read_document(TEMPLATE, overrides={"request_name": "mine"}).request_name == "mine"


def test_illegal_name_from_the_caller_s_rule_is_refused() -> None:
    with pytest.raises(InvalidInput):
        read_document(TEMPLATE, new_name=lambda *_: "not a name")
