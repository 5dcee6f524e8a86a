"""The configuration of the payload kind is read strictly."""

from __future__ import annotations

from typing import Any

import pytest

from sandbox.cmssw.config import read_config
from sandbox.failure import BAD_CONFIGURATION, JobFailure

STEP: dict[str, Any] = {"name": "GENSIM", "release": "CMSSW_14_0_0", "arch": "el8_amd64_gcc12"}
SECOND = STEP | {"name": "DIGI", "parent": 0, "module": "RAWSIMoutput"}


def payload(*steps: Any, **more: Any) -> dict[str, Any]:
    return {"cmssw": {"steps": list(steps)}, **more}


def test_steps_are_read() -> None:
    pileup = {"/A/B-v1/PREMIX": ["/store/mc/a.root"]}
    second = SECOND | {"pileup": {"mc": ["/A/B-v1/PREMIX"]}, "cores": 8, "streams": 2}

    config = read_config(payload(STEP, second, pileup=pileup))

    assert [step.parent for step in config.steps] == [None, 0]
    assert config.cores == 8
    assert config.steps[1].pileup == {"mc": ("/A/B-v1/PREMIX",)}
    assert config.pileup == {"/A/B-v1/PREMIX": ("/store/mc/a.root",)}


def test_pileup_may_have_very_many_files() -> None:
    files = [f"/store/mc/premix/{number}.root" for number in range(30_000)]

    assert (
        len(read_config(payload(STEP, pileup={"/A/B-v1/PREMIX": files})).pileup["/A/B-v1/PREMIX"]) == 30_000
    )


def test_steps_whose_configurations_are_still_to_be_fetched_are_accepted() -> None:
    assert read_config(payload(STEP)).steps[0].pset == ""


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ({}, "payload: cmssw"),
        (payload(), "steps"),
        (payload("GENSIM"), "steps[0]"),
        (payload(STEP | {"release": "14_0_0"}), "steps[0]: release"),
        (payload(STEP | {"arch": "el8;rm"}), "steps[0]: arch"),
        (payload(STEP | {"pset": "../pset_1.py"}), "steps[0]: pset"),
        (payload(STEP | {"sha256": "abc"}), "steps[0]: sha256"),
        (payload(STEP | {"cores": 0}), "steps[0]: cores"),
        (payload(STEP | {"modules": {"a b": {}}}), "steps[0]: modules: a b"),
        (payload(STEP | {"outputs": {"a": "AOD"}}), "steps[0]: outputs: a"),
        (payload(STEP | {"pileup": {"both": []}}), "steps[0]: pileup: both"),
        (payload(STEP, STEP), "steps[1]: parent"),
        (payload(STEP, SECOND | {"parent": 1}), "steps[1]: parent"),
        (payload(STEP, pileup={"/A/B-v1/PREMIX": ["a.root"]}), "payload: pileup: /A/B-v1/PREMIX"),
    ],
)
def test_errors_in_the_configuration_are_named(given: dict[str, Any], field: str) -> None:
    with pytest.raises(JobFailure) as caught:
        read_config(given)

    assert caught.value.code == BAD_CONFIGURATION
    assert field in caught.value.message
