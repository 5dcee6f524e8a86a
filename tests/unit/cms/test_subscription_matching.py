from __future__ import annotations

import json
from typing import Any

import pytest

from cms.subscriptions import destinations
from cms.types import Destination

DATASET = "/SingleMuon/Run2024A-Lab-v1/MINIAOD"


def subscription(
    name: str = "s", expression: str = "T2_CH_CERN", state: str = "ACTIVE", copies: Any = 1, **filters: Any
) -> Any:
    return {
        "name": name,
        "account": "root",
        "state": state,
        "filter": json.dumps(filters),
        "replication_rules": json.dumps([{"copies": copies, "rse_expression": expression}]),
    }


def matching(*rows: Any) -> list[Destination]:
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
def test_inactive_subscription_has_no_destination(state: str) -> None:
    assert matching(subscription(state=state)) == []


def test_each_destination_once_in_the_order_of_names() -> None:
    rows = [subscription("b", "T2_DE_DESY"), subscription("c", "T2_CH_CERN"), subscription("a", "T2_CH_CERN")]

    assert matching(*rows) == [Destination("T2_CH_CERN"), Destination("T2_DE_DESY")]


@pytest.mark.parametrize(
    ("wanted", "copies"), [([1, 2], 2), ([2, 1], 2), (["3"], 3), ([2, "*"], None), (["*", 2], None)]
)
def test_the_largest_number_of_copies_counts(wanted: list[Any], copies: int | None) -> None:
    rows = [subscription(f"s{number}", copies=want) for number, want in enumerate(wanted)]
    assert matching(*rows) == [Destination("T2_CH_CERN", copies)]
