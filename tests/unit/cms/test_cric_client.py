from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from cms.cric import CricClient, parse_sites
from cms.types import SiteInfo
from wms2_project.errors import ServiceUnavailable

BESIDE_THE_CHECKOUT = Path(__file__).parents[3].parent / "shared" / "samples"
SAMPLES = Path(os.environ.get("WMS2_SAMPLES", BESIDE_THE_CHECKOUT))


def flattened(*rows: tuple[Any, Any]) -> dict[str, Any]:
    return {"desc": {"columns": ["phedex_name", "psn_name"]}, "result": [list(row) for row in rows]}


def test_lab_sites_and_their_storages(cric: CricClient) -> None:
    assert cric.sites() == [
        SiteInfo("T1_US_FNAL", ("T1_US_FNAL_Disk",)),
        SiteInfo("T2_CH_CERN", ("T2_CH_CERN",)),
        SiteInfo("T2_DE_DESY", ("T2_DE_DESY",)),
        SiteInfo("T2_US_Purdue", ("T2_US_Purdue",)),
    ]


def test_a_site_that_only_the_query_of_any_state_lists_is_not_active(cric: CricClient, lab: Any) -> None:
    lab("PUT", "sites", {"T2_DE_DESY": "DISABLED", "T2_CH_CERN": "ABSENT"})
    assert {site.name: site.active for site in cric.sites()} == {
        "T1_US_FNAL": True, "T2_DE_DESY": False, "T2_US_Purdue": True,
    }  # fmt: skip


def test_no_active_site_is_an_error_rather_than_no_sites(cric: CricClient, lab: Any) -> None:
    lab("PUT", "sites", {site.name: "DISABLED" for site in cric.sites()})
    with pytest.raises(ServiceUnavailable, match="no active site"):
        cric.sites()


def test_sites_and_storages_are_many_to_many() -> None:
    answer = flattened(
        ("T2_UK_London_IC", "T3_UK_A"), ("T2_UK_London_IC", "T3_UK_B"), ("T2_UK_Brunel", "T3_UK_A")
    )

    assert parse_sites(answer) == [
        SiteInfo("T3_UK_A", ("T2_UK_Brunel", "T2_UK_London_IC")),
        SiteInfo("T3_UK_B", ("T2_UK_London_IC",)),
    ]


def test_columns_decide_not_their_order() -> None:
    answer = {"desc": {"columns": ["psn_name", "phedex_name"]}, "result": [["T1_DE_KIT", "T1_DE_KIT_Disk"]]}

    assert parse_sites(answer) == [SiteInfo("T1_DE_KIT", ("T1_DE_KIT_Disk",))]


def test_rows_without_a_storage_are_left_out() -> None:
    answer = flattened((None, "T3_XX_Cloud"), ("T1_DE_KIT_Disk", "T1_DE_KIT"))

    assert [site.name for site in parse_sites(answer)] == ["T1_DE_KIT"]


@pytest.mark.parametrize("answer", [[], {"result": []}, {"desc": {"columns": ["a"]}, "result": [[1, 2]]}])
def test_unknown_form_is_unavailable_rather_than_no_sites(answer: Any) -> None:
    with pytest.raises(ServiceUnavailable, match="unknown form"):
        parse_sites(answer)


def test_every_processing_site_of_cms_is_read() -> None:
    path = SAMPLES / "cric" / "sites.json"
    if not path.exists():
        pytest.skip(f"no CRIC sample in {SAMPLES}; set WMS2_SAMPLES")
    records = json.loads(path.read_text())["data-processing"]

    sites = parse_sites(flattened(*((row["phedex_name"], row["psn_name"]) for row in records)))

    assert {site.name for site in sites} == {row["psn_name"] for row in records}
    assert sum(len(site.rses) for site in sites) == len({(r["phedex_name"], r["psn_name"]) for r in records})
