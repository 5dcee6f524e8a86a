"""Configurations are fetched once, kept, pinned to a workflow and written into its DAG directory."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cms.configcache import BadConfiguration
from cms.types import Configuration, OutputModule
from dags_app.models import Workflow
from dags_app.planning.plan import PlanRefused
from dags_app.services.configurations import (
    DIRECTORY,
    UnusableConfiguration,
    fetch_configurations,
    pset_assets,
)
from tests.integration.factories import make_workflow
from wms2_project.errors import NotFound, ServiceUnavailable

pytestmark = pytest.mark.django_db
AOD = "/Muons/Run2031A-First-v1/AOD"
STEP = {"name": "RECO", "release": "CMSSW_14_0_0", "arch": "el8_amd64_gcc12", "config_id": "cfg-1"}


class Cache:
    """A ConfigCache that counts its calls."""

    def __init__(self) -> None:
        self.content, self.tier, self.calls = b"process = 1\n", "AOD", 0
        self.error: Exception | None = None

    def configuration(self, config_id: str) -> Configuration:
        self.calls += 1
        if self.error is not None:
            raise self.error
        return Configuration(config_id, self.content, {"AODoutput": OutputModule(self.tier)})


@pytest.fixture
def cache(adapt: Callable[..., None], settings: Any, tmp_path: Path) -> Cache:
    settings.SUBMIT_ROOT = str(tmp_path)
    made = Cache()
    adapt(config_cache=made)
    return made


def workflow() -> Workflow:
    return make_workflow(payload_config={"kind": "cmssw", "cmssw": {"steps": [STEP]}})


def assets(row: Workflow) -> list[tuple[str, bytes]]:
    return [(one.path, one.content) for one in pset_assets(workflow=row, payload=row.payload_config)]


def test_workflow_is_pinned_to_its_configuration(cache: Cache) -> None:
    row = workflow()

    fetch_configurations(workflow=row)

    row.refresh_from_db()
    (step,) = row.payload_config["cmssw"]["steps"]
    assert (step["pset"], step["outputs"]) == ("pset_1.py", {"AODoutput": AOD})
    assert assets(row) == [("pset_1.py", cache.content)]


def test_second_workflow_uses_the_kept_configuration(cache: Cache) -> None:
    for row in (workflow(), workflow()):
        fetch_configurations(workflow=row)

    assert cache.calls == 1


def test_workflow_keeps_its_configuration_when_the_cache_has_another(cache: Cache, tmp_path: Path) -> None:
    row = workflow()
    fetch_configurations(workflow=row)
    before, cache.content = cache.content, b"process = 2\n"

    assert assets(row) == [("pset_1.py", before)]

    for file in (tmp_path / DIRECTORY).iterdir():
        file.unlink()
    with pytest.raises(PlanRefused, match="cfg-1 is not the one the request was validated with"):
        assets(row)


def test_lost_file_is_fetched_again(cache: Cache, tmp_path: Path) -> None:
    row = workflow()
    fetch_configurations(workflow=row)
    for file in (tmp_path / DIRECTORY).iterdir():
        file.unlink()

    assert assets(row) == [("pset_1.py", cache.content)]
    assert cache.calls == 2


@pytest.mark.parametrize(
    "error",
    [NotFound("no configuration cfg-1", cure="Check it"), BadConfiguration("no process", cure="Check it")],
)
def test_unusable_configuration_is_named(cache: Cache, error: Exception) -> None:
    cache.error = error
    row = workflow()

    with pytest.raises(UnusableConfiguration, match="Check it") as caught:
        fetch_configurations(workflow=row)

    assert caught.value.config_id == "cfg-1"
    row.refresh_from_db()
    assert row.payload_config["cmssw"]["steps"] == [STEP]


def test_configuration_that_does_not_write_the_dataset_is_named_with_the_cure(cache: Cache) -> None:
    cache.tier = "RECO"

    with pytest.raises(UnusableConfiguration, match=f"writes {AOD}; .* RECO by AODoutput of cfg-1") as caught:
        fetch_configurations(workflow=workflow())

    assert "Correct OutputDatasets or ConfigCacheID" in caught.value.cure


def test_cache_that_does_not_answer_is_called_again_later(cache: Cache) -> None:
    cache.error = ServiceUnavailable("ConfigCache: GET got no answer")

    with pytest.raises(ServiceUnavailable):
        fetch_configurations(workflow=workflow())


def test_workflow_without_configurations_is_not_planned(cache: Cache) -> None:
    with pytest.raises(PlanRefused, match="has no configurations"):
        assets(workflow())


def test_other_payloads_have_no_configurations(cache: Cache) -> None:
    row = make_workflow(payload_config={"kind": "toy"})

    assert assets(row) == []
    assert cache.calls == 0
