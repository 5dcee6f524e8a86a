"""A misspelt field of a request document is refused, and limits are the same at every entry."""

from __future__ import annotations

from typing import Any

import pytest
from rest_framework.test import APIClient

from requests_app.api.inputs import ChangeInput, ReleaseChanges
from requests_app.documents import lookup, read_document
from requests_app.documents.table import EDITABLE, FIELD
from requests_app.models import Request
from requests_app.states import RequestStatus as S
from tests.integration.factories import DOCUMENT, make_request, make_site
from wms2_project.errors import InvalidInput

REQMGR2 = {"RequestName": "r", "InputDataset": "/A/B-v1/RAW", "AcquisitionEra": "Era"}
CHAIN = REQMGR2 | {"StepChain": 1, "Step1": {"StepName": "one"}}
# Arguments of ReqMgr2's request types that WMS2 does not read.
_OTHERS = """
    AllowOpportunistic BlockCloseMaxEvents BlockCloseMaxFiles BlockCloseMaxSize
    BlockCloseMaxWaitTime ChainParentageMap ConfigCacheUrl CouchDBName CustodialSites DQMConfigCacheID
    DQMHarvestUnit DQMSequences DQMUploadProxy DQMUploadUrl DatasetLifetime DbsUrl DeleteFromSource
    DeterministicPileup EnableHarvesting EnableNewStageout EventStreams GPUParams GlobalTagConnect GracePeriod
    HardTimeout HarvestingMemory IgnoredOutputModules InputFromOutputModule InputStep InputTask
    JobExtraMatchRequirements LheInputFiles MaxMergeEvents MaxWaitTime MinMergeSize NonCustodialSites
    OpenRunningTimeout OriginalRequestName Override OverrideCatalog ParentageResolved PeriodicHarvestInterval
    PhysicsGroup RequestType RequiresGPU RobustMerge RunNumber Scenario Seeding SkimInput1 SkimName1
    SkimTimePerEvent1 SoftTimeout StepName SubRequestType SubscriptionPriority TaskName TransientOutputModules
    TrustPUSitelists TrustSitelists ValidStatus
"""
PASSED_ON = _OTHERS.split()


def refused(document: dict[str, Any], **options: Any) -> dict[str, str]:
    with pytest.raises(InvalidInput) as error:
        read_document(document, **options)
    return dict(error.value.fields)


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("Memroy", "Memory"), ("MemoryMB", "Memory"), ("Priority", "RequestPriority"),
        ("RequestPriorty", "RequestPriority"), ("SiteWhiteList", "SiteWhitelist"),
        ("SiteBlackist", "SiteBlacklist"), ("MultiCore", "Multicore"), ("TimePerEvents", "TimePerEvent"),
        ("EventPerJob", "EventsPerJob"), ("LumiPerJob", "LumisPerJob"),
        ("FilterEfficency", "FilterEfficiency"),
        ("InputDatset", "InputDataset"), ("InputsDatasets", "InputDatasets"), ("GlobalTags", "GlobalTag"),
        ("Memory_MB", "memory_mb"),
        ("RunWhiteList", "RunWhitelist"), ("CategoryThrottle", "CategoryThrottles"),
    ],
)  # fmt: skip
def test_misspelt_field_is_refused_with_the_nearest_name(written: str, meant: str) -> None:
    assert refused({**REQMGR2, written: 1}) == {
        written: f"{written}: is not a field of a request; did you mean {meant}?"
    }


@pytest.mark.parametrize(("written", "meant"), [("Memroy", "Memory"), ("memroy_mb", "memory_mb")])
def test_misspelt_field_of_a_step_is_refused(written: str, meant: str) -> None:
    document = CHAIN | {"Step1": {"StepName": "one", written: 2000}}
    assert f"did you mean {meant}?" in refused(document)[f"Step1.{written}"]


@pytest.mark.parametrize("name", PASSED_ON)
def test_other_names_of_reqmgr2_are_no_misspellings(name: str) -> None:
    assert read_document({**REQMGR2, name: "x"}).payload_config[name] == "x"


def test_stored_document_is_read_again_as_it_was_accepted() -> None:
    assert read_document({**REQMGR2, "Memroy": 1}, stored=True).payload_config == {"Memroy": 1}


def test_many_unknown_names_are_refused_without_comparing_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lookup, "get_close_matches", lambda *_, **__: pytest.fail("takes minutes"))
    names = {f"A{number}bcdefghij": 1 for number in range(60_000)}
    assert "payload_config" in refused(REQMGR2 | names)["document"]


def test_an_unknown_allocation_is_refused_with_the_known_ones() -> None:
    result = refused({**REQMGR2, "allocation": "steal"})
    assert result == {"allocation": "allocation: 'steal' is unknown; use one of push, pull"}


@pytest.mark.parametrize(
    ("field", "body"),
    [
        ({"Memroy": 2000}, "Memroy"),
        ({"allocation": "steal"}, "allocation"),
        ({"input_from": "another"}, "input_from"),
        ({"allocation": "pull", "run_whitelist": [1]}, "splitting_params.run_whitelist"),
        ({"allocation": "pull", "payload_config": {"jobscript": "echo"}}, "payload_config"),
        ({"payload_config": {"kind": "toy", "outputs": [{"pattern": "*"}]}}, "payload_config.outputs"),
        ({"memory_mb": 2_000_001}, "memory_mb"),
    ],
)
@pytest.mark.django_db
def test_the_api_refuses_and_names_the_field(field: dict[str, Any], body: str, requestor: APIClient) -> None:
    answer = requestor.post("/api/v1/requests", DOCUMENT | field)
    assert (answer.status_code, list(answer.json()["errors"])) == (422, [body])


@pytest.mark.parametrize("name", [one.name for one in EDITABLE if one.kind.schema["type"] == "integer"])
def test_an_edit_has_the_limits_of_the_document(name: str) -> None:
    limits, field = FIELD[name].kind.schema, ChangeInput().fields[name]
    assert (field.min_value, field.max_value) == (limits["minimum"], limits["maximum"])


def test_a_release_has_the_limits_of_the_document() -> None:
    fields = ReleaseChanges().fields
    assert fields["memory_mb"].max_value == FIELD["memory_mb"].kind.schema["maximum"]
    assert fields["time_per_event_sec"].max_value == FIELD["time_per_event_sec"].kind.schema["maximum"]


@pytest.mark.django_db
def test_memory_that_a_document_may_ask_for_may_also_be_edited(operator: APIClient) -> None:
    make_site()
    row = make_request(status=S.QUEUED)
    answer = operator.patch(f"/api/v1/requests/{row}", {"reason": "r", "memory_mb": 1_500_000})
    row.workflow.refresh_from_db()
    assert (answer.status_code, row.workflow.chosen_memory_mb) == (200, 1_500_000)


@pytest.mark.parametrize("action", ["restart", "edit"])
@pytest.mark.django_db
def test_requests_accepted_before_the_rule_stay_usable(
    action: str, requestor: APIClient, operator: APIClient
) -> None:
    draft = action == "edit"
    row = requestor.post("/api/v1/requests", DOCUMENT | {"draft": draft}).json()["request_name"]
    older = DOCUMENT | {"Memroy": 1} | ({} if draft else {"allocation": "pull"})  # it had no effect then
    Request.objects.filter(request_name=row).update(request_data=older)
    body = {"reason": "r", "dry_run": True}
    if draft:
        answer = operator.patch(f"/api/v1/requests/{row}", body | {"priority": 7})
    else:
        answer = operator.post(f"/api/v1/requests/{row}/restart", body)
    assert answer.status_code == 200, answer.json()
