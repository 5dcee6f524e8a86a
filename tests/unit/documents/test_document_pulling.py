"""What goes together with allocation pull, and what a document with it is refused for."""

from __future__ import annotations

from typing import Any

import pytest

from dags_app.planning.payloads import PayloadRules
from requests_app.documents import read_document
from tests.unit.documents.document_examples import OWN, changed
from wms2_project.errors import InvalidInput

SCRIPT = "#!/bin/sh\n"
PULL = changed(
    OWN,
    allocation="pull",
    splitting_params={"files_per_job": 1},
    payload_config={"jobscript": SCRIPT},
    cmssw_version=...,
    sandbox_url=...,
)
UNTIL = "2031-05-01T12:00:00Z"


def refusal(**changes: Any) -> dict[str, str]:
    with pytest.raises(InvalidInput) as refused:
        read_document(changed(PULL, **changes), payloads=PayloadRules())
    return refused.value.fields


def test_the_longest_jobscript_is_accepted() -> None:
    script = SCRIPT.ljust(64 * 1024, "x")

    spec = read_document(changed(PULL, payload_config={"jobscript": script}), payloads=PayloadRules())

    assert spec.payload_config["jobscript"] == script


@pytest.mark.parametrize(
    ("changes", "field", "message"),
    [
        ({"allocation": "push"}, "payload_config.jobscript", "needs allocation pull"),
        ({"allocation": "push", "follow_input_until": UNTIL}, "follow_input_until", "needs allocation pull"),
        (
            {"allocation": "push", "input_from": "other", "input_dataset": ...},
            "input_from",
            "needs allocation pull",
        ),
        ({"payload_config": {"jobscript": "echo 1"}}, "payload_config", "begins with #!"),
        ({"payload_config": {"jobscript": 5}}, "payload_config", "begins with #!"),
        ({"payload_config": {"jobscript": "#!/bin/sh\0"}}, "payload_config", "begins with #!"),
        (
            {"payload_config": {"jobscript": SCRIPT.ljust(64 * 1024 + 1, "x")}},
            "payload_config",
            "65536 bytes",
        ),
        (
            {"payload_config": {"jobscript": SCRIPT, "outputs": [{"pattern": "a b"}]}},
            "payload_config.outputs",
            "shell wildcards",
        ),
        (
            {"splitting_params": {"files_per_job": 1, "run_whitelist": [5]}},
            "splitting_params.run_whitelist",
            "lends whole files",
        ),
        (
            {"splitting_params": {"files_per_job": 1, "lumi_mask": {"5": [[1, 4]]}}},
            "splitting_params.lumi_mask",
            "lends whole files",
        ),
        ({"pull_jobs": 0}, "pull_jobs", ""),
        ({"max_distance": -1}, "max_distance", ""),
        ({"max_distance": 101}, "max_distance", ""),
    ],
)
def test_what_does_not_go_together_is_named_by_field(
    changes: dict[str, Any], field: str, message: str
) -> None:
    found = refusal(**changes)

    assert [name for name in found if name.startswith(field)], found
    assert message in " ".join(text for name, text in found.items() if name.startswith(field))
