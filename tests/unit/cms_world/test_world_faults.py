from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest
import requests

Ask = Callable[..., requests.Response]
SITES = "/cric/api/cms/site/query/?json&preset=data-processing"
NEW = {"RequestName": "ana_1"}


def test_fault_applies_as_often_as_configured(ask: Ask) -> None:
    ask("PUT", "/lab/faults", [{"service": "cric", "kind": "status", "status": 503, "times": 2}])

    assert [ask("GET", SITES).status_code for _ in range(3)] == [503, 503, 200]
    assert ask("GET", "/lab/faults").json() == []


def test_fault_for_ever_ends_when_taken_back(ask: Ask) -> None:
    ask("PUT", "/lab/faults", [{"service": "*", "kind": "status", "status": 500, "times": None}])

    assert [ask("GET", SITES).status_code for _ in range(3)] == [500, 500, 500]
    ask("PUT", "/lab/faults", [])
    assert ask("GET", SITES).status_code == 200


@pytest.mark.parametrize(
    "elsewhere",
    [{"service": "dbs"}, {"method": "POST"}, {"path_regex": "/rules/"}, {"body_regex": "T2_DE_DESY"}],
)
def test_fault_spares_other_calls(ask: Ask, elsewhere: dict[str, Any]) -> None:
    ask("PUT", "/lab/faults", [{"service": "*", "kind": "status", "status": 500, **elsewhere}])

    assert ask("GET", SITES).status_code == 200


def test_success_then_500_has_its_effect(ask: Ask) -> None:
    ask("PUT", "/lab/faults", [{"service": "reqmgr2", "kind": "success_then_500"}])

    assert ask("POST", "/reqmgr2/data/request", NEW).status_code == 500
    assert ask("GET", "/lab/state").json()["requests"] == {"ana_1": "assigned"}


@pytest.mark.parametrize("fault", [{"kind": "status", "status": 500}, {"kind": "timeout", "seconds": 0.05}])
def test_failed_call_has_no_effect(ask: Ask, fault: dict[str, Any]) -> None:
    ask("PUT", "/lab/faults", [{"service": "reqmgr2", **fault}])

    try:
        ask("POST", "/reqmgr2/data/request", NEW)
    except requests.ConnectionError:
        assert fault["kind"] == "timeout"

    assert ask("GET", "/lab/state").json()["requests"] == {}


def test_slow_answer_is_late_but_right(ask: Ask) -> None:
    ask("PUT", "/lab/faults", [{"service": "cric", "kind": "slow", "seconds": 0.2}])
    started = time.monotonic()

    assert ask("GET", SITES).status_code == 200
    assert time.monotonic() - started >= 0.2


def test_slow_call_does_not_hold_up_others(ask: Ask) -> None:
    ask("PUT", "/lab/faults", [{"service": "cric", "kind": "timeout", "seconds": 30}])
    with pytest.raises(requests.ReadTimeout):
        requests.get(ask("GET", "/lab/health").url.replace("/lab/health", SITES), timeout=(60, 0.1))

    assert ask("GET", SITES).status_code == 200


@pytest.mark.parametrize(
    "fault",
    [
        {"service": "cric"},
        {"service": "cric", "kind": "explode"},
        {"service": "unknown", "kind": "status"},
        {"service": "cric", "kind": "status", "path_regex": "("},
        {"service": "cric", "kind": "status", "colour": "blue"},
    ],
)
def test_fault_that_could_never_happen_is_refused(ask: Ask, fault: dict[str, Any]) -> None:
    answer = ask("PUT", "/lab/faults", [fault])

    assert answer.status_code == 400
    assert "fault" in answer.json()["error"]


def test_wrong_counts_are_one_more_than_there_are(ask: Ask) -> None:
    ask("PUT", "/lab/faults", [{"service": "dbs", "kind": "wrong_counts"}])
    summary = "/dbs/DBSReader/filesummaries?dataset=/Unknown/Dataset-v1/RAW"

    assert [ask("GET", summary).json()[0]["num_file"] for _ in range(2)] == [1, 0]
