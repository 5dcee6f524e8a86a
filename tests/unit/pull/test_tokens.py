"""Tokens of jobs: their claims, and refusal of any other text."""

from __future__ import annotations

from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dags_app.pull.tokens import TokenKind, group_subject, make_token, parse_group, read_token

KEY = "a key of the settings"
WORKFLOW = UUID("7f0c1d2e-0000-4000-8000-000000000001")
OTHER = UUID("7f0c1d2e-0000-4000-8000-000000000002")
SUBJECT = group_subject(round_number=3, group=17)
TOKEN = make_token(key=KEY, workflow_id=WORKFLOW, kind=TokenKind.GROUP, subject=SUBJECT)


def test_a_token_is_the_same_whenever_it_is_derived() -> None:
    assert make_token(key=KEY, workflow_id=WORKFLOW, kind=TokenKind.GROUP, subject=SUBJECT) == TOKEN


def test_a_token_contains_its_kind_and_subject() -> None:
    found = read_token(TOKEN, key=KEY, workflow_id=WORKFLOW)
    assert found is not None
    assert (found.kind, parse_group(found.subject)) == (TokenKind.GROUP, (3, 17))


@pytest.mark.parametrize(
    ("text", "key", "workflow"),
    [
        (TOKEN, KEY, OTHER),
        (TOKEN, "another key", WORKFLOW),
        (TOKEN.replace(".group.", ".runner."), KEY, WORKFLOW),
        (TOKEN.replace(".3.17.", ".3.18."), KEY, WORKFLOW),
        (TOKEN[:-1], KEY, WORKFLOW),
        (f"{TOKEN}=", KEY, WORKFLOW),
        (TOKEN.replace("wms2j", "wms2"), KEY, WORKFLOW),
        ("", KEY, WORKFLOW),
        ("wms2j.group..", KEY, WORKFLOW),
        ("wms2j.group.3.17.é", KEY, WORKFLOW),
    ],
)
def test_other_texts_are_refused(text: str, key: str, workflow: UUID) -> None:
    assert read_token(text, key=key, workflow_id=workflow) is None


@given(st.text(max_size=200))
def test_arbitrary_text_is_refused(text: str) -> None:
    assert read_token(text, key=KEY, workflow_id=WORKFLOW) is None
    assert read_token(f"wms2j.files.{text}", key=KEY, workflow_id=WORKFLOW) is None
