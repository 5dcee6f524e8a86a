"""The client of the ConfigCache against the stand-in service."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any

import pytest

from cms.configcache import BadConfiguration, ConfigCacheClient, read_modules
from cms.types import OutputModule
from wms2_project.errors import InvalidInput, NotFound, ServiceUnavailable

Lab = Callable[..., Any]
ID = "527f598f9168f0145d17417be583c7ef"
PROGRAM = "import FWCore.ParameterSet.Config as cms\nprocess = cms.Process('GEN')\nprint 'of Python 2'\n"
MODULES = {"RAWSIMoutput": {"dataTier": "GEN-SIM"}, "LHEoutput": {"dataTier": "LHE", "filterName": "Kept"}}


@pytest.fixture
def stored(lab: Lab) -> Callable[..., None]:
    def store(**changed: Any) -> None:
        lab("POST", "configs", {"id": ID, "content": PROGRAM, "modules": MODULES} | changed)

    return store


def test_configuration_has_its_program_hash_and_modules(
    config_cache: ConfigCacheClient, stored: Callable[..., None]
) -> None:
    stored()

    found = config_cache.configuration(ID)

    assert found.content.decode() == PROGRAM
    assert found.sha256 == hashlib.sha256(PROGRAM.encode()).hexdigest()
    assert found.modules == {
        "RAWSIMoutput": OutputModule("GEN-SIM"),
        "LHEoutput": OutputModule("LHE", "Kept"),
    }


def test_missing_configuration_is_named_with_the_cure(config_cache: ConfigCacheClient) -> None:
    with pytest.raises(NotFound, match=f"no configuration {ID}") as caught:
        config_cache.configuration(ID)

    assert "ConfigCacheID" in caught.value.cure


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("# nothing", "does not define a process"),
        (PROGRAM + "#" * 5000, "more than"),
    ],
)
def test_an_invalid_configuration_is_refused(
    config_cache: ConfigCacheClient, stored: Callable[..., None], content: str, message: str
) -> None:
    stored(content=content)

    with pytest.raises(BadConfiguration, match=f"{ID} cannot be used: .*{message}"):
        config_cache.configuration(ID)


def test_identifier_that_is_no_name_is_not_sent(config_cache: ConfigCacheClient) -> None:
    with pytest.raises(InvalidInput, match="config_cache_id"):
        config_cache.configuration("../_all_docs")


def test_service_that_fails_is_tried_again_later(
    config_cache: ConfigCacheClient, stored: Callable[..., None], lab: Lab
) -> None:
    stored()
    lab("PUT", "faults", [{"service": "couchdb", "kind": "status", "status": 503, "times": None}])

    with pytest.raises(ServiceUnavailable, match="answered 503"):
        config_cache.configuration(ID)


@pytest.mark.parametrize(
    "document",
    [
        None,
        [],
        {},
        {"pset_tweak_details": None},
        {"pset_tweak_details": {"process": {"outputModules_": "RAWSIMoutput"}}},
        {
            "pset_tweak_details": {
                "process": {"outputModules_": ["a b"], "a b": {"dataset": {"dataTier": "RAW"}}}
            }
        },
        {"pset_tweak_details": {"process": {"outputModules_": ["a"], "a": {"dataset": {"dataTier": "r/w"}}}}},
        {"pset_tweak_details": {"process": {"outputModules_": [{}]}}},
    ],
)
def test_document_without_usable_modules_is_refused(document: Any) -> None:
    with pytest.raises(BadConfiguration, match=ID):
        read_modules(ID, document)


def test_module_without_a_dataset_is_left_out() -> None:
    process = {"outputModules_": ["a", "b"], "a": {"dataset": {"dataTier": "RAW"}}, "b": {}}

    assert read_modules(ID, {"pset_tweak_details": {"process": process}}) == {"a": OutputModule("RAW")}
