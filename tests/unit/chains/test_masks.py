"""Masks: searched in linear time; syntax that RE2 does not support is refused."""

from __future__ import annotations

import time

import pytest

from chains_app import masks
from wms2_project.errors import InvalidInput

RAW = "/Muons/Run2031A-v1/RAW"


@pytest.mark.parametrize(
    ("mask", "found"),
    [("Muons", True), ("^/Muons/.*/RAW$", True), ("^Muons", False), ("(?i)MUONS", True), ("", False)],
)
def test_mask_is_searched_in_the_name(mask: str, found: bool) -> None:
    assert masks.matches(mask, RAW) is found


@pytest.mark.parametrize("mask", ["(?=a)", r"(a)\1", "(", "[", "a" * 501, "", "(((a{100}){100}){100})"])
def test_illegal_mask_is_refused_by_field(mask: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        masks.compile_mask(mask)

    assert refused.value.fields["mask"]


@pytest.mark.parametrize(("mask", "everything"), [(".", True), ("/", True), ("RAW$", False), ("v7", False)])
def test_mask_that_matches_everything_is_recognised(mask: str, everything: bool) -> None:
    assert masks.matches_everything(mask) is everything


def test_nested_repetition_takes_linear_time() -> None:
    name = "/" + "a" * 99 + "/" + "a" * 199 + "/RAW"
    began = time.process_time()

    assert not masks.matches(r"^/(a+)+/(a+)+/(R+)+x$", name)

    assert time.process_time() - began < 1


def test_examples_are_tried_one_by_one() -> None:
    assert masks.try_examples("RAW$", [RAW, "/A/B-v1/AOD"]) == {RAW: True, "/A/B-v1/AOD": False}
