"""The configurations of a CMSSW workflow: which are still to be fetched, and which module writes what. Pure.

`payload_config.cmssw.steps` names the configurations by ConfigCacheID. Pinning adds to each step the file its
jobs get (`pset`), its checksum, the output modules of the configuration, and the dataset of each module that
is kept.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from cms.types import Configuration, OutputModule
from dags_app.planning.payloads import CMSSW
from sandbox.cmssw.config import PSET_NAMES, SAVER, SECTION
from sandbox.cmssw.tweaks import MERGED
from sandbox.scram import required_os

_VERSION = re.compile(r"-v[0-9]+", re.ASCII)
HARVEST_TIER = "DQM"
Step = Mapping[str, Any]


class ConfigurationRefused(Exception):
    """The configurations do not write what the request asks for; `config_id` is the one to look at."""

    def __init__(self, config_id: str, message: str) -> None:
        super().__init__(message)
        self.config_id = config_id
        self.message = message


@dataclass(frozen=True, slots=True)
class _Writer:
    """An output module whose files are kept."""

    index: int
    label: str
    module: OutputModule
    step: Step

    def matches(self, dataset: str) -> int:
        """Return how well the module fits the name of a dataset; 0 if it does not write it."""
        _, primary, processed, tier = dataset.split("/")
        if tier != self.module.tier:
            return 0
        stem, filter_name = _VERSION.sub("", processed), self.module.filter_name
        era, string = self.step.get("era", ""), self.step.get("string", "")
        names = {
            "-".join(part for part in (era, filter_name, words) if part)
            for words in (string, f"{string}_{self.step['name']}".lstrip("_"))
        }
        if primary == self.step.get("primary") and stem in names:
            return 3
        if filter_name:
            return 2 if f"-{filter_name}-" in f"-{stem}-" else 0
        return 1


def steps_of(payload: Mapping[str, Any]) -> list[Step]:
    """Return the steps of a payload_config; none if it is not of the kind cmssw."""
    section = payload.get(SECTION)
    if payload.get("kind") != CMSSW or not isinstance(section, Mapping):
        return []
    return list(section.get("steps") or [])


def is_pinned(payload: Mapping[str, Any]) -> bool:
    """Return whether program and outputs of every step are known."""
    return all("outputs" in step for step in steps_of(payload))


def needed_configurations(payload: Mapping[str, Any]) -> list[str]:
    """Return the ConfigCacheIDs of the steps, each once."""
    return list(dict.fromkeys(step["config_id"] for step in steps_of(payload) if not step.get("merge")))


def system_of(payload: Mapping[str, Any], scram_arch: str) -> str:
    """Return the operating system that all steps need, for REQUIRED_OS."""
    steps = steps_of(payload)
    arches = [str(step.get("arch", "")) for step in steps] or ([scram_arch] if scram_arch else [])
    return required_os(arches)


def pin_configurations(
    payload: Mapping[str, Any], datasets: Sequence[str], found: Mapping[str, Configuration]
) -> dict[str, Any]:
    """Return the payload_config with its configurations. Raises ConfigurationRefused."""
    steps = [dict(step) for step in steps_of(payload)]
    for index, step in enumerate(steps):
        if step.get("merge"):
            modules: Mapping[str, OutputModule] = {MERGED: OutputModule(datasets[0].rpartition("/")[2])}
        else:
            known = found[step["config_id"]]
            step["pset"], step["sha256"], modules = PSET_NAMES[index], known.sha256, known.modules
            if step.get("harvest"):
                modules = {SAVER: OutputModule(HARVEST_TIER)}
        step["modules"] = {
            label: {"tier": module.tier, "filter": module.filter_name} for label, module in modules.items()
        }
        _check_input(steps, step)
    outputs = map_outputs(steps, datasets)
    for index, step in enumerate(steps):
        step["outputs"] = outputs[index]
    return {**payload, SECTION: {**payload[SECTION], "steps": steps}}


def _source(step: Step) -> str:
    return str(step.get("config_id") or step["name"])


def _check_input(steps: Sequence[Step], step: Step) -> None:
    """Refuse a step that reads a module which the step before does not have, or names none."""
    if step.get("parent") is None:
        return
    before = steps[step["parent"]]
    module, labels = step.get("module", ""), sorted(before["modules"])
    if module in labels or (not module and len(labels) == 1):
        return
    wanted = f"reads {module} of" if module else "does not name the output module that it reads of"
    raise ConfigurationRefused(
        _source(before),
        f"{step['name']} {wanted} {before['name']}, whose configuration {_source(before)} has"
        f" {', '.join(labels) or 'none'}",
    )


def map_outputs(steps: Sequence[Step], datasets: Sequence[str]) -> list[dict[str, str]]:
    """Return for each step the dataset of each module that is kept. Raises ConfigurationRefused."""
    left = [
        _Writer(index, label, OutputModule(module["tier"], module["filter"]), step)
        for index, step in enumerate(steps)
        if step.get("keep", True)
        for label, module in step["modules"].items()
        if label not in step.get("transient", ())
    ]
    outputs: list[dict[str, str]] = [{} for _ in steps]
    written = ", ".join(f"{one.module.tier} by {one.label} of {_source(one.step)}" for one in left)
    # Names that fit exactly first, so that no dataset takes the module of another.
    for rank in (3, 2, 1):
        for dataset in datasets:
            if any(dataset in one.values() for one in outputs):
                continue
            writer = next((one for one in reversed(left) if one.matches(dataset) == rank), None)
            if writer is not None:
                outputs[writer.index][writer.label] = dataset
                left.remove(writer)
    for dataset in datasets:
        if not any(dataset in one.values() for one in outputs):
            raise ConfigurationRefused(
                _source(steps[-1]),
                f"no output module that is kept writes {dataset}; there are {written or 'none'}",
            )
    return outputs
