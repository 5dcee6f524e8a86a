from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from cms.reqmgr2 import Assignment, ReqMgr2Client
from wms2_project.errors import InvalidInput, NotFound, ServiceRejected, ServiceUnavailable

Lab = Callable[..., Any]
DOCUMENT = {"RequestName": "ana_ReReco_1", "RequestStatus": "closed-out", "Nested": {"Deep": [1, 2]}}


@pytest.fixture(autouse=True)
def stored(lab: Lab) -> None:
    lab("POST", "requests", DOCUMENT)
    lab("POST", "requests", {**DOCUMENT, "RequestName": "ana_ReReco_2"})
    lab("POST", "requests", {**DOCUMENT, "RequestName": "ana_ReReco_3", "RequestStatus": "new"})


def test_document_is_returned_unchanged(reqmgr2: ReqMgr2Client) -> None:
    assert reqmgr2.request("ana_ReReco_1") == DOCUMENT


def test_unknown_name_is_not_found_in_a_clear_sentence(reqmgr2: ReqMgr2Client) -> None:
    with pytest.raises(NotFound, match="ReqMgr2 has no request named unknown"):
        reqmgr2.request("unknown")


def test_name_that_is_no_name_never_leaves_the_house(reqmgr2: ReqMgr2Client) -> None:
    with pytest.raises(InvalidInput, match="request_name"):
        reqmgr2.request("../../secrets")


def test_status_is_set(reqmgr2: ReqMgr2Client) -> None:
    reqmgr2.set_status("ana_ReReco_1", "announced")

    assert reqmgr2.request("ana_ReReco_1")["RequestStatus"] == "announced"


def test_setting_the_same_status_again_is_fine(reqmgr2: ReqMgr2Client) -> None:
    reqmgr2.set_status("ana_ReReco_1", "announced")
    reqmgr2.set_status("ana_ReReco_1", "announced")

    assert reqmgr2.request("ana_ReReco_1")["RequestStatus"] == "announced"


def test_illegal_status_is_rejected_with_reqmgr2s_words(reqmgr2: ReqMgr2Client) -> None:
    with pytest.raises(ServiceRejected, match="closed-out cannot become running-open"):
        reqmgr2.set_status("ana_ReReco_1", "running-open")


def test_change_that_succeeded_behind_an_error_counts(reqmgr2: ReqMgr2Client, lab: Lab) -> None:
    lab("PUT", "faults", [{"service": "reqmgr2", "kind": "success_then_500", "method": "PUT"}])

    reqmgr2.set_status("ana_ReReco_1", "announced")

    assert lab("GET", "state")["requests"]["ana_ReReco_1"] == "announced"


def test_change_that_failed_is_unavailable(reqmgr2: ReqMgr2Client, lab: Lab) -> None:
    lab("PUT", "faults", [{"service": "reqmgr2", "kind": "status", "status": 503, "method": "PUT"}])

    with pytest.raises(ServiceUnavailable, match="503"):
        reqmgr2.set_status("ana_ReReco_1", "announced")

    assert lab("GET", "state")["requests"]["ana_ReReco_1"] == "closed-out"


def test_an_assignment_has_the_team_and_the_sites(reqmgr2: ReqMgr2Client) -> None:
    reqmgr2.bring_to("ana_ReReco_3", "acquired", assignment=Assignment(team="wms2", sites=("T2_DE_DESY",)))

    seen = reqmgr2.request("ana_ReReco_3")
    result = (seen["RequestStatus"], seen["Team"], seen["SiteWhitelist"])
    assert result == ("acquired", "wms2", ["T2_DE_DESY"])


@pytest.mark.parametrize("assignment", [None, Assignment("", ("T2_DE_DESY",)), Assignment("wms2", ())])
def test_an_assignment_without_team_or_sites_is_refused(
    reqmgr2: ReqMgr2Client, assignment: Assignment | None
) -> None:
    reqmgr2.set_status("ana_ReReco_3", "assignment-approved")
    with pytest.raises(ServiceRejected, match=r"Team|SiteWhitelist"):
        reqmgr2.set_status("ana_ReReco_3", "assigned", assignment=assignment)
