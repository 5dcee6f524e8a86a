"""The configurations of CMSSW workflows: fetched once from the ConfigCache, kept, and given to jobs.

They are kept below the submit root, which all processes of WMS2 share: the description by ConfigCacheID, the
program by its SHA-256. A workflow keeps using the programs it was pinned to, also if the ConfigCache changes.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from django.conf import settings

from cms.configcache import BadConfiguration
from cms.types import Configuration, OutputModule
from condor.layout import Asset
from dags_app.adapters import config_cache
from dags_app.models import Workflow
from dags_app.planning.configurations import (
    ConfigurationRefused,
    is_pinned,
    needed_configurations,
    pin_configurations,
    steps_of,
)
from dags_app.planning.payloads import CMSSW
from dags_app.planning.plan import PlanRefused
from sandbox.atomic import replacing
from wms2_project.errors import NotFound, PermanentError, TransientError

DIRECTORY = "configurations"


class UnusableConfiguration(PermanentError):
    """The configuration of a step cannot be used; `config_id` names it."""

    def __init__(self, config_id: str, message: str, *, cure: str) -> None:
        super().__init__(message, cure=cure)
        self.config_id = config_id


def fetch_configurations(*, workflow: Workflow) -> None:
    """Pin the workflow to the configurations of its steps; those that are kept are not fetched again.

    Raises UnusableConfiguration naming ConfigCacheID and cure, ServiceUnavailable if it may work later.
    """
    found: dict[str, Configuration] = {}
    for config_id in needed_configurations(workflow.payload_config):
        try:
            found[config_id] = _kept(config_id) or _fetched(config_id)
        except (NotFound, BadConfiguration) as error:
            raise UnusableConfiguration(config_id, error.message, cure=error.cure) from error
    try:
        pinned = pin_configurations(workflow.payload_config, workflow.output_datasets, found)
    except ConfigurationRefused as refused:
        raise UnusableConfiguration(
            refused.config_id,
            refused.message,
            cure="Correct OutputDatasets or ConfigCacheID and submit the request again",
        ) from refused
    Workflow.objects.filter(pk=workflow.pk).update(payload_config=pinned)
    workflow.payload_config = pinned


def pset_assets(*, workflow: Workflow, payload: Mapping[str, Any]) -> tuple[Asset, ...]:
    """Return the configurations for the DAG directory. Raises PlanRefused if they are not known."""
    if payload.get("kind") != CMSSW:
        return ()
    steps = steps_of(payload)
    if not steps or not is_pinned(payload):
        raise PlanRefused(
            f"{workflow.request_name} has no configurations", cure="Restart it, so that it is validated again"
        )
    programs = [step for step in steps if not step.get("merge")]
    return tuple(Asset(step["pset"], _program(step["config_id"], step["sha256"])) for step in programs)


def _program(config_id: str, sha256: str) -> bytes:
    """Return the program a workflow was pinned to; fetch it again if it was lost."""
    path = _directory() / f"{sha256}.py"
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        content = _fetched(config_id).content
    except OSError as error:
        raise TransientError(
            f"{path} cannot be read: {error.strerror}", cure="Retried automatically"
        ) from error
    if hashlib.sha256(content).hexdigest() != sha256:
        raise PlanRefused(
            f"the configuration {config_id} is not the one the request was validated with",
            cure="Restart the request to use the current configuration",
        )
    return content


def _kept(config_id: str) -> Configuration | None:
    """Return a configuration that was fetched before; None if it was not, or not completely."""
    try:
        described = json.loads((_directory() / f"{config_id}.json").read_bytes())
        content = (_directory() / f"{described['sha256']}.py").read_bytes()
        modules = {label: OutputModule(**module) for label, module in described["modules"].items()}
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise TransientError(
            f"the kept configuration {config_id} cannot be read: {error}",
            cure=f"Remove {config_id}.json from {_directory()}; it is fetched again",
        ) from error
    configuration = Configuration(config_id, content, modules)
    return configuration if configuration.sha256 == described["sha256"] else None


def _fetched(config_id: str) -> Configuration:
    """Fetch a configuration and keep it: the program before the description that names it."""
    configuration = config_cache().configuration(config_id)
    directory = _directory()
    modules = {
        label: {"tier": module.tier, "filter_name": module.filter_name}
        for label, module in configuration.modules.items()
    }
    described = {"sha256": configuration.sha256, "modules": modules}
    try:
        directory.mkdir(parents=True, exist_ok=True)
        for name, data in (
            (f"{configuration.sha256}.py", configuration.content),
            (f"{config_id}.json", json.dumps(described, sort_keys=True).encode()),
        ):
            with replacing(directory / name) as handle:
                handle.write(data)
    except OSError as error:
        raise TransientError(
            f"the configuration {config_id} could not be kept: {error}",
            cure="Free space, or make the submit root writable; retried automatically",
        ) from error
    return configuration


def _directory() -> Path:
    return Path(settings.SUBMIT_ROOT) / DIRECTORY
