from __future__ import annotations

import pytest

from lab.cms_world.rse_expression import BadExpression, resolve

RSES = {
    "T1_US_FNAL_Disk": {"tier": "1", "country": "US", "rse_type": "DISK"},
    "T1_US_FNAL_Tape": {"tier": "1", "country": "US", "rse_type": "TAPE"},
    "T2_CH_CERN": {"tier": "2", "country": "CH", "rse_type": "DISK"},
    "T2_DE_DESY": {"tier": "2", "country": "DE", "rse_type": "DISK"},
}


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("*", sorted(RSES)),
        ("T2_CH_CERN", ["T2_CH_CERN"]),
        ("tier=2&rse_type=DISK", ["T2_CH_CERN", "T2_DE_DESY"]),
        ("T2_DE_DESY|T2_CH_CERN", ["T2_CH_CERN", "T2_DE_DESY"]),
        (r"tier=1\rse_type=TAPE", ["T1_US_FNAL_Disk"]),
        (r"(tier=1|tier=2)\rse_type=TAPE&country=US", ["T1_US_FNAL_Disk"]),
        (r"tier=2\(country=DE|country=US)", ["T2_CH_CERN"]),
        (" T2_CH_CERN | T2_DE_DESY ", ["T2_CH_CERN", "T2_DE_DESY"]),
    ],
)
def test_expression_resolves_to_storages(expression: str, expected: list[str]) -> None:
    assert resolve(expression, RSES) == expected


@pytest.mark.parametrize("expression", ["tier=9", "T2_XX_None", r"*\*"])
def test_empty_set_is_an_error_as_in_rucio(expression: str) -> None:
    with pytest.raises(BadExpression, match="empty set"):
        resolve(expression, RSES)


@pytest.mark.parametrize(
    "expression", ["", "((", "tier=1)", "&tier=1", "tier=1|", "T2_*", "tier=1;drop", "()"]
)
def test_expression_that_cannot_be_read(expression: str) -> None:
    with pytest.raises(BadExpression):
        resolve(expression, RSES)
