"""The next action of a request, by its status and its failures."""

from __future__ import annotations

from typing import Any

import pytest

from console.request.next_action import decide_next_action, status_sentence
from dags_app.failures.clusters import Remedy, Suggestion
from requests_app.states import STATUSES, RequestStatus

S = RequestStatus
BAN = Suggestion(Remedy.BAN_SITE, "all jobs at X fail", {"site_bans": ["X"]})
FAIL = Suggestion(Remedy.FAIL, "every job fails alike")
ALL = frozenset({"release", "fail", "submit", "restart"})


@pytest.mark.parametrize(
    ("status", "given", "operation", "text"),
    [
        (S.HELD, {"suggestions": [BAN, FAIL]}, "release", "all jobs at X fail"),
        (S.HELD, {"suggestions": [FAIL]}, "fail", "every job fails alike"),
        (S.HELD, {"remedy": "Read the evidence"}, "release", "Read the evidence"),
        (S.HELD, {}, "release", "An operator decides"),
        (S.NEW, {}, "submit", "Submit the draft"),
        (S.ABORTED, {}, "restart", "Restart it"),
        (S.QUEUED, {"remedy": "Wait, or raise the priority"}, "", "raise the priority"),
        (S.ACTIVE, {"remedy": "Wait: the jobs are running"}, "", "Nothing to do"),
        (S.ACTIVE, {}, "", "Nothing to do"),
        (S.COMPLETED, {}, "", "Nothing to do"),
    ],
)
def test_the_next_action_follows_from_status_and_evidence(
    status: RequestStatus, given: dict[str, Any], operation: str, text: str
) -> None:
    found = decide_next_action(status, allowed=ALL, **given)
    assert (found.operation, text in found.text) == (operation, True)


def test_a_suggestion_has_a_label_and_values() -> None:
    found = decide_next_action(S.HELD, suggestions=[BAN], allowed=ALL)
    assert (found.label, found.values) == ("Release with a site ban", {"site_bans": ["X"]})


def test_without_permission_the_next_action_has_no_button() -> None:
    found = decide_next_action(S.HELD, suggestions=[BAN], allowed=frozenset())
    assert (found.operation, found.label, found.text) == ("", "", "all jobs at X fail")


@pytest.mark.parametrize("status", list(S))
def test_every_status_has_a_sentence(status: RequestStatus) -> None:
    assert status_sentence(status, reason="") == STATUSES[status].why
