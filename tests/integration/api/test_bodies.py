"""Response bodies derived from dataclasses: members, types, nullability and help texts."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import Annotated, Any
from uuid import UUID

import pytest
from rest_framework import serializers

from wms2_project.api.bodies import INTERNAL, body_of, render


class Colour(StrEnum):
    RED = "red"
    BLUE = "blue"


@dataclass(frozen=True, slots=True)
class Part:
    """A part."""

    name: str
    secret: Annotated[int, INTERNAL] = 7


@dataclass(frozen=True, slots=True)
class Whole(Part):
    """Everything a body can hold."""

    id: UUID | None = None
    at: Annotated[datetime | None, "When it was made."] = None
    share: Annotated[float, {"max_value": 1}] = 0.5
    colour: Colour = Colour.RED
    parts: tuple[Part, ...] = ()
    first: Part | None = None
    counts: Annotated[dict[str, str] | None, Part] = None
    notes: Annotated[list[str], "Free text."] = ()  # type: ignore[assignment]
    evidence: dict[str, Any] | None = None
    site: Annotated[str, serializers.URLField] = ""


MEMBERS = body_of(Whole)().fields


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("name", serializers.CharField), ("id", serializers.UUIDField), ("at", serializers.DateTimeField),
        ("share", serializers.FloatField), ("colour", serializers.ChoiceField),
        ("parts", serializers.ListSerializer), ("first", body_of(Part)), ("notes", serializers.ListField),
        ("evidence", serializers.DictField), ("site", serializers.URLField), ("counts", body_of(Part)),
    ],
)  # fmt: skip
def test_the_type_of_a_field_decides_the_kind_of_member(name: str, kind: type[Any]) -> None:
    assert isinstance(MEMBERS[name], kind)


def test_members_are_the_fields_in_order_without_internal_ones() -> None:
    assert list(MEMBERS)[:3] == ["name", "id", "at"]
    assert "secret" not in MEMBERS
    assert body_of(Whole).__doc__ == "Everything a body can hold."
    assert body_of(Whole).__name__ == "WholeBody"


def test_null_help_and_options_are_derived_from_the_annotation() -> None:
    assert {name for name, one in MEMBERS.items() if one.allow_null} == {
        "id", "at", "first", "counts", "evidence",
    }  # fmt: skip
    assert (MEMBERS["at"].help_text, MEMBERS["notes"].help_text) == ("When it was made.", "Free text.")
    assert MEMBERS["share"].max_value == 1
    assert MEMBERS["colour"].choices == {"red": "red", "blue": "blue"}


def test_every_member_is_always_in_the_body() -> None:
    assert all(one.required for one in MEMBERS.values())


def test_a_value_is_rendered_with_its_parts() -> None:
    made = datetime(2031, 1, 2, tzinfo=UTC)
    body = render(Whole("all", at=made, parts=(Part("a"), Part("b", secret=8)), counts={"name": "n"}))
    assert body["at"] == "2031-01-02T00:00:00Z"
    assert (body["parts"], body["first"], body["counts"]) == (
        [{"name": "a"}, {"name": "b"}],
        None,
        {"name": "n"},
    )
    assert body["colour"] == "red"


def test_a_type_without_a_field_is_refused_with_the_cure() -> None:
    @dataclass
    class Odd:
        """A body with a set."""

        names: set[int]

    with pytest.raises(TypeError, match="name its DRF field with Annotated"):
        body_of(Odd)
