"""Each field: accepted values, their result, and errors under the name used in the document."""

from __future__ import annotations

import math
from typing import Any

import pytest
from document_examples import MONTE_CARLO, OWN, RERECO, changed

from requests_app.documents import RequestSpec, read_document
from wms2_project.errors import InvalidInput

MINIMAL = {"request_name": "r", "input_dataset": "/A/B-v1/RAW", "acquisition_era": "Era"}


def test_absent_fields_have_defaults() -> None:
    spec = read_document(MINIMAL)

    assert (spec.requestor, spec.priority, spec.urgent, spec.adaptive) == ("unknown", 100_000, False, False)
    assert (spec.memory_mb, spec.cores) == (2300, 1)
    assert (spec.time_per_event_sec, spec.size_per_event_kb) == (12.0, 512.0)
    assert spec.campaign == "Era"
    assert (spec.merged_lfn_base, spec.unmerged_lfn_base) == ("/store/data", "/store/unmerged")
    assert spec.target_merged_size_kb == 4 * 1024**2
    assert (spec.processing_string, spec.processing_version) == ("", 1)
    assert spec.payload_config == {}


@pytest.mark.parametrize(
    ("field", "given", "kept"),
    [
        ("priority", 0, 0),
        ("priority", 1_000_000, 1_000_000),
        ("memory_mb", 5950.0, 5950),
        ("cores", 512, 512),
        ("urgent", True, True),
        ("adaptive", True, True),
        ("scram_arch", ["one", "two"], "one"),
        ("site_whitelist", "T2_CH_CERN", ("T2_CH_CERN",)),
        ("site_whitelist", ["T2_US_UCSD", "T1_IT_CNAF", "T2_US_UCSD"], ("T2_US_UCSD", "T1_IT_CNAF")),
        ("site_whitelist", [], ()),
        ("requestor_dn", "", ""),
        ("group", None, ""),
        ("submitted_by", "/DC=org/CN=Ana Maria", "/DC=org/CN=Ana Maria"),
        ("global_tag", "GT_71::All", "GT_71::All"),
        ("merged_lfn_base", "/store/backfill/1/", "/store/backfill/1"),
        ("secondary_input_datasets", ["/A/B/GEN", "/A/B/GEN"], ("/A/B/GEN",)),
        ("time_per_event_sec", 1, 1.0),
        ("target_merged_size_kb", 1, 1),
        ("category_throttles", {"Processing": 7, "MergeGroup": 2.0}, {"Processing": 7, "MergeGroup": 2}),
    ],
)
def test_accepted_value(field: str, given: Any, kept: Any) -> None:
    spec = read_document({**MINIMAL, field: given})

    assert getattr(spec, field) == kept
    assert type(getattr(spec, field)) is type(kept)


BAD_WHOLE = [-1, 1.5, True, "5", [5], {"a": 5}, math.nan, math.inf, 10**30, 10**5000]
BAD_TEXT = [
    "a b",
    "a'b",
    "a\nb",
    "$(x)",
    'a"b',
    "a;b",
    "..",
    "a..b",
    "é",
    "x" * 501,
    5,
    True,
    ["a", 5],
    {"a": "b"},
]
LONG_TEXT = ["x" * 101]
REFUSALS: dict[str, list[Any]] = {
    "log_dataset": ["", "/A/B", "/A/B/LOG/", 5],
    "request_name": [*BAD_TEXT, "", "-first"],
    "requestor": [*BAD_TEXT, *LONG_TEXT],
    "requestor_dn": ["CN=x", "/CN=x\n", '/CN="x"', "/CN=$x", "/" + "x" * 401, 5],
    "group": [*BAD_TEXT, *LONG_TEXT],
    "campaign": BAD_TEXT,
    "prep_id": BAD_TEXT,
    "correlation_id": BAD_TEXT,
    "submitted_by": [*BAD_TEXT[1:], "x" * 241],
    "previous_version_request": BAD_TEXT,
    "global_tag": BAD_TEXT,
    "scram_arch": [*BAD_TEXT, *LONG_TEXT],
    "config_cache_id": [*BAD_TEXT, *LONG_TEXT],
    "acquisition_era": [*BAD_TEXT, "Run-1", "Run.1"],
    "processing_string": BAD_TEXT,
    "primary_dataset": [*BAD_TEXT, "a.b"],
    "cmssw_version": [*BAD_TEXT, "CMSSW_1", "ROOT_6_1_1", "CMSSW_" + "1" * 100 + "_0_0"],
    "input_dataset": [
        *BAD_TEXT,
        "",
        "/A/B",
        "/A/B/raw",
        "/A/B/RAW\n",
        "/A/B/RAW#1",
        ["/A/B/RAW", "/A/C/RAW"],
    ],
    "secondary_input_dataset": ["", "/A/B", ["/A/B/RAW", 5]],
    "output_datasets": ["/A/B", ["/A/B/RAW", ""], {"a": 1}, [f"/A/B{i}/RAW" for i in range(101)]],
    "priority": [*BAD_WHOLE, 1_000_001],
    "memory_mb": [*BAD_WHOLE, 0, 2_000_001],
    "retry_count": [*BAD_WHOLE, -1, 21],
    "cores": [*BAD_WHOLE, 0, 513],
    "processing_version": [*BAD_WHOLE, 0, 10_000],
    "target_merged_size_kb": [*BAD_WHOLE, 0],
    "max_merge_size": [*BAD_WHOLE, 1023],
    "category_throttles": [5, [5], {"Landing": 5}, {"Merge": 0}, {"Merge": "5"}, {"MergeGroup": 151}],
    "time_per_event_sec": [0, -0.1, 864_001, True, "1", math.nan, math.inf],
    "size_per_event_kb": [0, -0.1, 1e9, False, "1", -math.inf],
    "urgent": [1, "true", [True]],
    "adaptive": [0, "no"],
    "site_whitelist": [
        "T1",
        "T2_CH_CERN\n",
        ["T2_CH_CERN", 3],
        {"a": 1},
        [f"T2_CH_S{i}" for i in range(1001)],
    ],
    "site_blacklist": ["CERN", ["T9_CH_CERN"]],
    "pull_jobs": [*BAD_WHOLE, 0, 100_001],
    "max_distance": [*BAD_WHOLE, 101],
    "follow_input_until": ["tomorrow", "2031-01-01T00:00:00", 5],
    "input_from": [*BAD_TEXT],
    "allocation": ["PUSH", "steal", 1, ["push"]],
    "cleanup_policy": ["later", True],
    "wms_backend": ["crab"],
    "splitting_algo": ["", "EventAwareLumiByWork", "filebased", 3, ["FileBased"]],
    "splitting_params": ["x", [1], 5],
    "payload_config": ["x", [1], 5],
    "merged_lfn_base": ["/tmp", "/store/../x", "store", "/store/a b", "/store/$HOME", 5],
    "unmerged_lfn_base": ["/etc", "/store/data", "/store", "/store/data/x"],
    "sandbox_sha256": ["abc", "0" * 63, "A" * 64, 5],
    "sandbox_url": [
        "http://a.org/x",
        "https://",
        "https://u:p@a.org/",
        "https://u@a.org/",
        "file:///etc/passwd",
        5,
    ],
    "callback_url": [
        "https://a.org/\nx",
        "https://a.org/$x",
        "https://a.org:port/",
        "https://a.org/" + "x" * 500,
    ],
}


@pytest.mark.parametrize(
    ("field", "value"),
    [(field, value) for field, values in REFUSALS.items() for value in values],
    ids=lambda x: str(x)[:40] if not isinstance(x, int) else "n",
)
def test_refused_value_names_its_field_and_a_cure(field: str, value: Any) -> None:
    with pytest.raises(InvalidInput) as error:
        read_document({**MINIMAL, field: value})

    text = error.value.fields
    path = "merged_lfn_base" if field == "unmerged_lfn_base" and value != "/etc" else field
    assert [p for p in text if p.partition("[")[0] == path], text
    assert all(len(message) < 500 and "\n" not in message for message in text.values())


def test_every_text_and_number_of_a_request_is_in_the_refusal_table() -> None:
    from_table = {
        *REFUSALS,
        "further_input_datasets",
        "secondary_input_datasets",
        "total_events",
        "filter_efficiency",
        "first_event",
        "first_lumi",
    }

    assert set(RequestSpec.__dataclass_fields__) <= from_table


def test_the_author_s_spelling_is_used() -> None:
    with pytest.raises(InvalidInput) as error:
        read_document(changed(RERECO, RequestPriority=-5, ScramArch=["ok", "not ok"]))

    assert error.value.fields["RequestPriority"] == (
        "RequestPriority: -5 is out of range; give a whole number from 0 to 1000000"
    )
    assert error.value.fields["ScramArch"].startswith("ScramArch: entry 2: 'not ok'")


def test_a_site_cannot_be_on_both_site_lists() -> None:
    with pytest.raises(InvalidInput) as error:
        read_document(changed(OWN, site_blacklist=["T2_CH_CERN"]))

    assert "T2_CH_CERN is also whitelisted" in error.value.fields["site_blacklist"]


def test_long_values_are_not_echoed() -> None:
    with pytest.raises(InvalidInput) as error:
        read_document(changed(OWN, requestor="secret" * 1000, group={"password": "secret"}))

    assert len(str(error.value.fields)) < 800
    assert "password" not in error.value.fields["group"]


# --- input or generation ---------------------------------------------------------------------------------


def test_generator_reads_its_numbers() -> None:
    spec = read_document(MONTE_CARLO)

    assert spec.generates
    assert (spec.total_events, spec.filter_efficiency) == (5000, 0.25)
    assert (spec.first_event, spec.first_lumi) == (1001, 11)
    assert spec.events_to_generate == 20_000
    assert spec.output_kb_per_event == 20.0
    assert spec.merged_lfn_base == "/store/mc"


def test_neither_input_nor_events_is_refused_naming_both() -> None:
    with pytest.raises(InvalidInput) as error:
        read_document(changed(MONTE_CARLO, RequestNumEvents=...))

    assert set(error.value.fields) == {"InputDataset"}
    assert "RequestNumEvents" in error.value.fields["InputDataset"]


def test_refused_input_is_reported_once() -> None:
    with pytest.raises(InvalidInput) as error:
        read_document({"request_name": "r", "input_dataset": "", "acquisition_era": "E"})

    assert set(error.value.fields) == {"input_dataset"}


def test_reqmgr2_event_count_beside_an_input_is_only_information() -> None:
    spec = read_document(changed(RERECO, RequestNumEvents=0))

    assert spec.total_events is None
    assert spec.events_to_generate == 0
    assert spec.output_kb_per_event == spec.size_per_event_kb


def test_own_event_count_beside_an_input_is_refused() -> None:
    with pytest.raises(InvalidInput) as error:
        read_document(changed(OWN, total_events=5))

    assert "splitting_params.total_events" in error.value.fields["total_events"]


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("RequestNumEvents", 0),
        ("RequestNumEvents", 10**12 + 1),
        ("RequestNumEvents", "many"),
        ("FilterEfficiency", 0),
        ("FilterEfficiency", 1.01),
        ("FilterEfficiency", 5e-324),
        ("FilterEfficiency", 1e-12),
        ("FirstEvent", 0),
        ("FirstLumi", 2**32),
        ("PrimaryDataset", None),
        ("AcquisitionEra", None),
    ],
)
def test_generator_refuses(field: str, value: Any) -> None:
    with pytest.raises(InvalidInput) as error:
        read_document(changed(MONTE_CARLO, **{field: value}))

    assert set(error.value.fields) == {field}


def test_too_many_events_for_the_filter_are_refused() -> None:
    with pytest.raises(InvalidInput) as error:
        read_document(changed(MONTE_CARLO, RequestNumEvents=10**12, FilterEfficiency=1e-6))

    assert set(error.value.fields) == {"FilterEfficiency"}


@pytest.mark.parametrize(
    ("steps", "gpus"),
    [
        ({"RequiresGPU": "required"}, 1),
        ({"RequiresGPU": "forbidden"}, 0),
        ({"RequiresGPU": "optional"}, 0),
        ({}, 0),
    ],
)
def test_a_step_that_requires_a_gpu_gives_every_job_one(steps: dict[str, str], gpus: int) -> None:
    assert RequestSpec(payload_config={"Step1": {}, "Step2": steps}).gpus == gpus
    assert RequestSpec(payload_config=steps).gpus == gpus


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ([5], "write {name: number}"),
        ({"Landing": 5}, "use Processing, Merge, Cleanup, MergeGroup"),
        ({"Merge": 0}, "Merge: 0 is out of range"),
        ({"Merge": -3}, "Merge: -3 is out of range"),
        ({"MergeGroup": 151}, "from 1 to 150"),
        ({"Processing": "many"}, "is not a number"),
    ],
)
def test_throttles_are_named_and_bounded(given: Any, message: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        read_document({**MINIMAL, "CategoryThrottles": given})
    assert message in refused.value.fields["CategoryThrottles"]


def test_a_chain_has_throttles_for_all_of_it() -> None:
    chain = {**MINIMAL, "StepChain": 1, "Step1": {"StepName": "one"}, "CategoryThrottles": {"Merge": 3}}
    assert read_document(chain).category_throttles == {"Merge": 3}


SEVERAL = ["/A/B-v1/RAW", "/A/C-v1/RAW"]


def test_several_input_datasets_are_read_in_order_and_written_again() -> None:
    spec = read_document(changed(MINIMAL, input_dataset=..., input_datasets=[*SEVERAL, SEVERAL[0]]))

    assert spec.input_datasets == tuple(SEVERAL)
    assert spec.to_document()["input_datasets"] == SEVERAL
    assert read_document(spec.to_document()) == spec


def test_a_list_of_one_input_dataset_is_the_single_form() -> None:
    spec = read_document(changed(RERECO, InputDatasets=[RERECO["InputDataset"]]))

    assert spec == read_document(RERECO)


@pytest.mark.parametrize(
    ("changes", "field", "words"),
    [
        ({"input_datasets": SEVERAL}, "input_datasets", "contradicts input_dataset"),
        ({"input_dataset": ..., "input_datasets": ["/A/B"]}, "input_datasets", "/A/B"),
        ({"input_dataset": ..., "input_datasets": ""}, "input_datasets", "input_datasets"),
        ({"input_dataset": ..., "input_datasets": SEVERAL, "output_datasets": ["/A/C-v1/RAW"]},
         "output_datasets", "equals an input dataset"),
        ({"input_dataset": ..., "input_datasets": SEVERAL, "block_whitelist": ["/A/D-v1/RAW#x"]},
         "block_whitelist", "is not a block of the input"),
    ],
)  # fmt: skip
def test_refused_input_datasets(changes: dict[str, Any], field: str, words: str) -> None:
    with pytest.raises(InvalidInput) as error:
        read_document(changed(MINIMAL, **changes))

    assert words in error.value.fields[field]


def test_block_lists_may_name_blocks_of_every_input_dataset() -> None:
    blocks = [f"{dataset}#x" for dataset in SEVERAL]
    spec = read_document(changed(MINIMAL, input_dataset=..., input_datasets=SEVERAL, block_whitelist=blocks))

    assert spec.splitting_params.block_whitelist == tuple(blocks)


@pytest.mark.parametrize("taken", ["/A/B-v1/RAW", "/A/Out-v1/AOD"])
def test_a_log_dataset_has_a_name_of_its_own(taken: str) -> None:
    with pytest.raises(InvalidInput) as error:
        read_document({**MINIMAL, "output_datasets": ["/A/Out-v1/AOD"], "log_dataset": taken})

    assert "choose a name of its own" in error.value.fields["log_dataset"]
