"""The configuration of the payload kind `cmssw`: the steps of a job, each one cmsRun.

`payload_config.cmssw.steps` is a list; step N reads what an earlier step wrote (`parent`, `module`), the
first one the job's input. WMS2 derives it from the request document and adds `pset`, `sha256`, `modules` and
`outputs` when it has fetched the configurations. `payload_config.pileup` has the files of the pileup
datasets.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from sandbox import names
from sandbox.failure import BAD_CONFIGURATION, JobFailure
from sandbox.jsonfile import ClaimRefused, Fields

SECTION, PILEUP = "cmssw", "pileup"
SAVER = "dqmSaver"  # the module that writes harvested histograms, by its name in CMSSW's configurations
PILEUP_TYPES = ("mc", "data")
MAX_STEPS = 50
MAX_CORES = 512
PSET_NAMES = tuple(f"pset_{number}.py" for number in range(1, MAX_STEPS + 1))  # of the step's configuration
_SHA256 = re.compile(r"[0-9a-f]{64}", re.ASCII)


class HarvestUnit(Enum):
    """Unit of harvesting of one job: a run, or all runs of the request at its site."""

    BY_RUN = "byRun"
    MULTI_RUN = "multiRun"


@dataclass(frozen=True)
class Harvest:
    """Harvesting of histograms; `dataset` is the one they are from, which names the file in CMSSW's way."""

    unit: HarvestUnit
    dataset: str


@dataclass(frozen=True)
class Step:
    """One cmsRun. `outputs`: output dataset of each module whose files are kept.

    `pset` is empty until WMS2 has fetched the configuration. `parent` is the index of the step that is read.
    `merge`: CMSSW's own merge instead of a configuration.
    """

    name: str
    release: str
    arch: str
    parent: int | None = None
    module: str = ""
    pset: str = ""
    sha256: str = ""
    modules: tuple[str, ...] = ()
    outputs: Mapping[str, str] = field(default_factory=dict)
    cores: int = 1
    streams: int = 0
    pileup: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    lhe: bool = False
    merge: bool = False
    harvest: Harvest | None = None


@dataclass(frozen=True)
class Config:
    """All steps, and the files of each pileup dataset."""

    steps: tuple[Step, ...]
    pileup: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def cores(self) -> int:
        return max(step.cores for step in self.steps)


def read_config(payload: Mapping[str, Any]) -> Config:
    """Return the steps of a payload_config. Raises JobFailure naming the field that is wrong."""
    try:
        section = Fields(payload.get(SECTION), f"payload: {SECTION}")
        found = section.children("steps", most=MAX_STEPS)
        if not found:
            section.refuse("steps", "at least one step")
        steps = [_read_step(fields, index) for index, fields in enumerate(found)]
        if len(steps) > 1 and any(step.harvest for step in steps):
            section.refuse("steps", "one step alone if it harvests")
        lists = Fields(payload.get(PILEUP) or {}, f"payload: {PILEUP}")
        pileup = {dataset: _files(lists, dataset) for dataset in lists.raw}
    except ClaimRefused as error:
        raise JobFailure(BAD_CONFIGURATION, str(error)) from error
    return Config(tuple(steps), pileup)


def _read_step(fields: Fields, index: int) -> Step:
    raw = fields.raw
    parent = None if raw.get("parent") is None else fields.integer("parent", maximum=index - 1)
    if parent is None and index:
        fields.refuse("parent", "the index of an earlier step")
    modules = fields.optional("modules")
    outputs = fields.optional("outputs")
    return Step(
        name=fields.name("name", names.REQUEST, "a name"),
        release=fields.name("release", names.RELEASE, "a release such as CMSSW_14_0_0"),
        arch=fields.name("arch", names.SCRAM_ARCH, "a ScramArch such as el8_amd64_gcc12"),
        parent=parent,
        module=_word(fields, "module", names.MODULE, "the label of an output module"),
        pset=_pset(fields),
        sha256=_word(fields, "sha256", _SHA256, "a SHA-256 checksum"),
        modules=() if modules is None else _labels(modules),
        outputs={}
        if outputs is None
        else {label: outputs.name(label, names.DATASET, "a dataset") for label in _labels(outputs)},
        cores=fields.integer("cores", minimum=1, maximum=MAX_CORES) if "cores" in raw else 1,
        streams=fields.integer("streams", maximum=MAX_CORES) if "streams" in raw else 0,
        pileup=_pileup(fields.optional("pileup")),
        lhe=fields.flag("lhe") if "lhe" in raw else False,
        merge=fields.flag("merge") if "merge" in raw else False,
        harvest=_harvest(fields.optional("harvest")),
    )


def _harvest(fields: Fields | None) -> Harvest | None:
    if fields is None:
        return None
    unit = fields.raw.get("unit")
    if unit not in [one.value for one in HarvestUnit]:
        fields.refuse("unit", " or ".join(one.value for one in HarvestUnit))
    return Harvest(HarvestUnit(unit), fields.name("dataset", names.DATASET, "a dataset"))


def _files(lists: Fields, dataset: str) -> tuple[str, ...]:
    """Return the files of a pileup dataset, of which there may be a hundred thousand."""
    found = lists.raw[dataset]
    if not isinstance(found, list) or not all(names.matches(names.LFN, lfn) for lfn in found):
        lists.refuse(dataset, "a list of LFNs")
    return tuple(found)


def _pset(fields: Fields) -> str:
    name = fields.raw.get("pset", "")
    if name and name not in PSET_NAMES:
        fields.refuse("pset", f"a file name such as {PSET_NAMES[0]}")
    return str(name)


def _word(fields: Fields, key: str, pattern: re.Pattern[str], kind: str) -> str:
    return fields.name(key, pattern, kind, empty=True) if key in fields.raw else ""


def _labels(fields: Fields) -> tuple[str, ...]:
    for label in fields.raw:
        if not names.matches(names.MODULE, label):
            fields.refuse(label, "the label of an output module as its key")
    return tuple(fields.raw)


def _pileup(fields: Fields | None) -> dict[str, tuple[str, ...]]:
    if fields is None:
        return {}
    for key in fields.raw:
        if key not in PILEUP_TYPES:
            fields.refuse(key, f"only the keys {' and '.join(PILEUP_TYPES)}")
    return {key: fields.name_list(key, names.DATASET, "dataset") for key in fields.raw}
