"""Any document gives InvalidInput or a spec that is stable and has no dangerous text outside the payload."""

from __future__ import annotations

import json
from collections.abc import Iterator
from copy import deepcopy
from typing import Any

import pytest
from document_examples import ALL
from hypothesis import given, settings
from hypothesis import strategies as st

from requests_app.documents import RequestSpec, read_document
from requests_app.documents.table import DOCUMENT, REQMGR2_NAME
from wms2_project.errors import InvalidInput
from wms2_project.grammar import Name, matches

LEAVES = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=20)
    | st.sampled_from(
        ["/A/B-v1/RAW", "T2_CH_CERN", "FileBased", "x-OVERRIDE-ME", "CMSSW_1_2_3", "Task1", "a\nb"]
    )
)
STRUCTURE = "Task1 Task2 Step1 TaskChain StepChain TaskName InputTask InputFromOutputModule createRequest"
KEYS = st.sampled_from(
    [
        *REQMGR2_NAME,
        *REQMGR2_NAME.values(),
        *STRUCTURE.split(),
        "assignRequest",
        "result",
        "RequestType",
        "_id",
    ]
) | st.text(max_size=5)
JSON = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS, inner, max_size=5),
    max_leaves=30,
)
QUICK = settings(max_examples=150)
INJECTIONS = ["\n", "\r\ninclude : echo |", '"', "$(HOME)", "`id`", ";", "|", "\\", "\x1b[2J", "\u2028"]


def leaves(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield paths of all scalars in a document."""
    if isinstance(value, dict | list):
        items = value.items() if isinstance(value, dict) else enumerate(value)
        for key, child in items:
            yield from leaves(child, (*path, key))
    else:
        yield path


def replaced(document: Any, path: tuple[Any, ...], value: Any) -> Any:
    copy = deepcopy(document)
    inner = copy
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = value
    return copy


def at(document: Any, path: tuple[Any, ...]) -> Any:
    for key in path:
        document = document[key]
    return document


def check_sound(spec: RequestSpec) -> None:
    assert matches(Name.REQUEST, spec.request_name)
    assert (spec.input_dataset is None) != (spec.total_events is None)
    assert spec.output_datasets
    for output in spec.output_datasets:
        assert matches(Name.DATASET, output.dataset)
        assert matches(Name.LFN_BASE, output.merged_lfn_base)
        assert matches(Name.LFN_BASE, output.unmerged_lfn_base)
    again = read_document(json.loads(json.dumps(spec.to_document(), allow_nan=False)))
    assert again == spec


def check_outcome(raw: Any, **options: Any) -> None:
    """Check that the result is a valid spec, or a refusal with a message for each named field."""
    try:
        spec = read_document(raw, **options)
    except InvalidInput as error:
        text = error.fields
    else:
        return check_sound(spec)
    assert text
    assert all(message.startswith(f"{path}: ") for path, message in text.items())


@QUICK
@given(JSON)
def test_arbitrary_json_is_read_or_refused(raw: Any) -> None:
    check_outcome(raw)


PLACES = [(shape, path) for shape, document in ALL.items() for path in leaves(document)]


@QUICK
@given(place=st.sampled_from(PLACES), value=JSON)
def test_valid_document_with_one_value_replaced_is_read_or_refused(place: Any, value: Any) -> None:
    shape, path = place
    check_outcome(replaced(ALL[shape], path, value))


@QUICK
@given(
    shape=st.sampled_from(list(ALL)),
    overrides=st.dictionaries(st.sampled_from([field.name for field in DOCUMENT]), JSON, max_size=3),
)
def test_arbitrary_overrides_are_taken_or_refused(shape: str, overrides: dict[str, Any]) -> None:
    check_outcome(ALL[shape], overrides=overrides)


@pytest.mark.parametrize("shape", ALL)
def test_reading_again_changes_nothing(shape: str) -> None:
    check_sound(read_document(ALL[shape]))


@pytest.mark.parametrize("shape", ALL)
def test_injected_text_is_refused_or_stays_in_the_payload(shape: str) -> None:
    document = ALL[shape]
    places = [path for path in leaves(document) if isinstance(at(document, path), str)]
    assert places
    refused = 0
    for path in places:
        for text in INJECTIONS:
            original = at(document, path)
            for injected in (original + text, original[:3] + text + original[3:]):
                try:
                    spec = read_document(replaced(document, path, injected))
                except InvalidInput:
                    refused += 1
                    continue
                outside = spec.to_document()
                outside.pop("payload_config", None)
                assert not [p for p in leaves(outside) if text in str(at(outside, p))], (path, injected)
    assert refused > len(places)


@pytest.mark.parametrize("shape", ALL)
def test_injected_field_names_never_leave_the_payload(shape: str) -> None:
    document = ALL[shape]
    parents = {path[:n] for path in leaves(document) for n in range(len(path))}
    for parent in parents:
        if not isinstance(at(document, parent), dict):
            continue
        try:
            spec = read_document(replaced({"root": document}, ("root", *parent, "Evil\n$name"), "x")["root"])
        except InvalidInput:
            continue
        outside = spec.to_document()
        outside.pop("payload_config", None)
        assert "Evil" not in json.dumps(outside)
