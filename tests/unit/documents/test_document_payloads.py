"""The payload of a document: its kind, refused configurations, and its files."""

from __future__ import annotations

from typing import Any

import pytest

from dags_app.planning.payloads import PayloadRefused, PayloadRules
from requests_app.documents import read_document
from tests.unit.documents.document_examples import OWN, RERECO, changed
from wms2_project.errors import InvalidInput

PRODUCTION = PayloadRules()
LAB = PayloadRules(plugins=("lab.toy",), default="root-demo")
DIGEST = "0" * 63 + "1"


def payload_of(document: dict[str, Any], rules: PayloadRules = PRODUCTION) -> dict[str, Any]:
    return dict(read_document(document, payloads=rules).payload_config)


def refusal(document: dict[str, Any], rules: PayloadRules = PRODUCTION) -> dict[str, str]:
    with pytest.raises(InvalidInput) as refused:
        read_document(document, payloads=rules)
    return refused.value.fields


BARE = changed(OWN, payload_config=..., cmssw_version=..., sandbox_url=...)


@pytest.mark.parametrize(
    ("given", "rules", "kind"),
    [
        ({"kind": "root-demo"}, PRODUCTION, "root-demo"),
        ({"command": ["./run"]}, PRODUCTION, "command"),
        ({"root_demo": {}}, PRODUCTION, "root-demo"),
        ({"kind": "root-demo", "command": ["./run"]}, PRODUCTION, "root-demo"),
        ({"toy": {"memory_mb": 5}}, LAB, "toy"),
        ({}, LAB, "root-demo"),
        ({"command": ["./run"]}, LAB, "command"),
    ],
)
def test_the_kind_is_named_by_a_section_or_the_default(
    given: dict[str, Any], rules: PayloadRules, kind: str
) -> None:
    assert payload_of({**BARE, "payload_config": given}, rules)["kind"] == kind


def test_a_request_without_a_payload_is_refused_with_the_kinds() -> None:
    message = refusal(BARE)["payload_config.kind"]

    assert "is missing" in message
    assert "command" in message
    assert "root-demo" in message
    assert "toy" not in message


@pytest.mark.parametrize(
    "given", [{"kind": "toy"}, {"kind": "toy", "toy": {}}, {"kind": "magic"}, {"kind": 5}]
)
def test_a_kind_that_jobs_here_cannot_run_is_refused_with_the_kinds(given: dict[str, Any]) -> None:
    message = refusal({**BARE, "payload_config": given})["payload_config.kind"]

    assert "root-demo" in message


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"kind": "command"}, "command: None is not a list of words"),
        ({"command": "echo hello"}, "command: 'echo hello' is not a list of words"),
        ({"command": ["x"], "environment": {"WMS2_JOB": "x"}}, "environment"),
        ({"command": ["x"], "merge": {"tool": "zip"}}, "merge: tool: 'zip' is not one of"),
        ({"kind": "root-demo", "root_demo": {"engine": "geant"}}, "root_demo: engine"),
        ({"kind": "root-demo", "max_wall_time_sec": -1}, "max_wall_time_sec"),
        ({"toy": {"memory_mb": "much"}}, "toy: memory_mb"),
    ],
)
def test_a_configuration_that_every_job_would_refuse_is_refused_at_once(
    given: dict[str, Any], words: str
) -> None:
    assert words in refusal({**BARE, "payload_config": given}, LAB)["payload_config"]


def test_a_sandbox_needs_its_digest_which_the_jobs_get() -> None:
    command = {"payload_config": {"command": ["./run"]}, "sandbox_url": "https://a.org/s.tar.gz"}
    assert "SHA-256" in refusal({**BARE, **command})["sandbox_sha256"]

    spec = read_document({**BARE, **command, "sandbox_sha256": DIGEST}, payloads=PRODUCTION)
    assert spec.payload_config["sandbox_sha256"] == spec.sandbox_sha256 == DIGEST
    assert read_document(spec.to_document(), payloads=PRODUCTION) == spec


@pytest.mark.parametrize("inside", [{"sandbox_url": "https://a.org/s.tar.gz"}, {"sandbox_sha256": DIGEST}])
def test_a_sandbox_inside_the_payload_is_sent_to_its_place(inside: dict[str, str]) -> None:
    message = refusal({**BARE, "payload_config": {"command": ["./run"], **inside}})["payload_config"]

    assert "sandbox_sha256 belong beside it" in message


def test_reading_the_document_of_a_spec_again_changes_nothing() -> None:
    spec = read_document(changed(RERECO, PayloadConfig={"kind": "root-demo"}), payloads=LAB)

    assert read_document(spec.to_document(), payloads=LAB) == spec


def test_a_tool_that_joins_no_files_is_known_to_the_planner() -> None:
    assert PRODUCTION.joins({"command": ["x"]})
    assert not PRODUCTION.joins({"command": ["x"], "merge": {"tool": "copy"}})
    assert PRODUCTION.joins({"kind": "unknown"})


def test_a_default_that_does_not_exist_is_refused() -> None:
    with pytest.raises(PayloadRefused, match="toy"):
        PayloadRules(default="toy").with_kind({}, release="")


MERGE = {**BARE, "splitting_algo": "FileBased", "splitting_params": {}, "payload_config": {"kind": "merge"}}


def test_the_kind_merge_joins_files_of_one_dataset() -> None:
    assert payload_of(MERGE)["kind"] == "merge"


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"splitting_algo": "EventBased"}, "splitting_algo"),
        ({"splitting_params": {"lumi_mask": {"1": [[1, 2]]}}}, "splitting_params.lumi_mask"),
        ({"splitting_params": {"total_events": 5}}, "splitting_params.total_events"),
        ({"output_datasets": ["/A/B-v1/AOD", "/A/C-v1/AOD"]}, "output_datasets"),
        ({"input_dataset": ..., "total_events": 10, "primary_dataset": "A"}, "input_dataset"),
    ],
)
def test_settings_unsupported_by_the_kind_merge_are_refused(changes: dict[str, Any], field: str) -> None:
    assert "the kind merge" in refusal(changed(MERGE, **changes))[field]
