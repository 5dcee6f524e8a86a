from __future__ import annotations

import json
from typing import Any

import pytest

from cms.subscriptions import destinations

DATASET = "/SingleMuon/Run2024A-Lab-v1/MINIAOD"


def subscription(
    name: str = "s", expression: str = "T2_CH_CERN", state: str = "ACTIVE", **filters: Any
) -> Any:
    return {
        "name": name,
        "account": "root",
        "state": state,
        "filter": json.dumps(filters),
        "replication_rules": json.dumps([{"copies": 1, "rse_expression": expression}]),
    }


def matching(*rows: Any) -> list[str]:
    return destinations(rows, dataset=DATASET, scope="cms", account="wms2")


@pytest.mark.parametrize(
    ("filters", "matches"),
    [
        ({"pattern": "^/.*/MINIAOD$"}, True),
        ({"pattern": "^/.*/AOD$"}, False),
        ({"pattern": "/SingleMuon/"}, True),
        ({"excluded_pattern": "^/.*/MINIAOD$"}, False),
        ({"excluded_pattern": "^/.*/AOD$"}, True),
        ({"scope": ["cms"]}, True),
        ({"scope": ["user.*"]}, False),
        ({"did_type": "CONTAINER"}, True),
        ({"did_type": ["DATASET"]}, False),
        ({"account": ["wms2"]}, True),
        ({"account": ["t0"]}, False),
        ({"split_rule": True}, True),
        ({"project": ["mc23"]}, False),
        ({"pattern": "^/.*/MINIAOD$", "scope": ["user.*"]}, False),
        ({"pattern": "("}, False),
        ({}, True),
    ],
)
def test_filter(filters: dict[str, Any], matches: bool) -> None:
    assert bool(matching(subscription(**filters))) is matches


@pytest.mark.parametrize("state", ["INACTIVE", "BROKEN"])
def test_sleeping_subscription_wants_nothing(state: str) -> None:
    assert matching(subscription(state=state)) == []


def test_each_destination_once_in_the_order_of_names() -> None:
    rows = [subscription("b", "T2_DE_DESY"), subscription("c", "T2_CH_CERN"), subscription("a", "T2_CH_CERN")]

    assert matching(*rows) == ["T2_CH_CERN", "T2_DE_DESY"]
