"""The steps of a CMSSW request: the parameters of each cmsRun of its jobs, read from the document alone.

They become `payload_config.cmssw.steps`, see `sandbox.cmssw.config`. The configurations themselves are
fetched later, when the request is validated; then each step gets its program, its output modules and their
datasets.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from requests_app.documents.lookup import Reader
from requests_app.documents.outputs import Stage, read_stages
from requests_app.documents.parsers import Refused, flag, named, text, whole
from requests_app.documents.problems import shown
from requests_app.documents.shapes import Step
from requests_app.documents.spec import RequestSpec
from sandbox import names
from sandbox.cmssw.config import MAX_CORES, SECTION, HarvestUnit
from wms2_project.grammar import Name

# What WMS2 adds once it has the configurations; a document cannot bring it along.
PINNED = ("pset", "sha256", "modules", "outputs")
HARVESTS = "DQMHarvest"  # reads histograms and writes a file of them per run
_UNIT = text("|".join(one.value for one in HarvestUnit), " or ".join(one.value for one in HarvestUnit))
MERGES = "StoreResults"  # joins the files of a dataset and has no configuration


def read_section(reader: Reader, spec: RequestSpec) -> Any:
    """Return the section `cmssw` of the payload: the one of the document, else its steps."""
    given = spec.payload_config.get(SECTION)
    if given is not None:
        if not (isinstance(given, Mapping) and isinstance(given.get("steps"), list)):
            return given  # refused when the payload is checked
        return {**given, "steps": [_read_given(reader, *numbered) for numbered in enumerate(given["steps"])]}
    kind = str(reader.document.created.values.get("RequestType"))
    stages = read_stages(reader, spec)
    if kind == HARVESTS:
        return {"steps": [_read_harvest(reader, spec, stages[0])]}
    return {"steps": [_read_step(reader, stage, merge=kind == MERGES) for stage in stages]}


def _read_given(reader: Reader, index: int, step: Any) -> Any:
    """Return a step that the document brings along, without what WMS2 adds."""
    if not isinstance(step, Mapping):
        return step
    try:
        named(Name.WORD, 100)("none" if step.get("merge") is True else step.get("config_id"))
    except Refused as refused:
        path = f"{reader.path('payload_config')}.{SECTION}.steps[{index}].config_id"
        reader.problems.add(path, str(refused))
    return {key: value for key, value in step.items() if key not in PINNED}


def _read_step(
    reader: Reader, stage: Stage, *, merge: bool = False, config_id: str | None = None
) -> dict[str, Any]:
    step = stage.step
    why = "names the configuration of the step"
    if config_id is None:
        config_id = "" if merge else _required(reader, "config_cache_id", step, why)
    made = {
        "name": step.name if step else "Step1",
        "release": _required(reader, "cmssw_version", step, "names the release of the step"),
        "arch": _read_arch(reader, step),
        "config_id": config_id,
        "merge": merge or None,
        "parent": step.parent if step else None,
        "module": _read_own(reader, step, "InputFromOutputModule", named(Name.WORD, 100)),
        "cores": reader.read("cores", step),
        "streams": _read_own(reader, step, "EventStreams", whole(0, MAX_CORES)),
        "lhe": _read_own(reader, step, "LheInputFiles", flag),
        "pileup": {
            kind: list(datasets)
            for kind, field in (("mc", "mc_pileup"), ("data", "data_pileup"))
            if (datasets := reader.read(field, step))
        },
        "keep": reader.read("keep_output", step),
        "transient": _transient(step),
        "global_tag": reader.read("global_tag", step),
        "primary": stage.primary,
        "era": stage.era,
        "string": stage.string,
    }
    return {key: value for key, value in made.items() if value not in (None, "", {}, [])}


def _read_harvest(reader: Reader, spec: RequestSpec, stage: Stage) -> dict[str, Any]:
    """Return the only step of a DQMHarvest: the fields of its configuration and unit have different names."""
    config_id = _read_own(reader, None, "DQMConfigCacheID", named(Name.WORD, 100))
    if not config_id:
        path = f"{reader.document.created.prefix}DQMConfigCacheID"
        reader.problems.add(path, "is missing; it names the configuration that harvests")
    unit = _read_own(reader, None, "DQMHarvestUnit", _UNIT) or HarvestUnit.BY_RUN.value
    step = _read_step(reader, stage, config_id=config_id or "")
    return {**step, "harvest": {"unit": unit, "dataset": spec.input_dataset or ""}}


def _required(reader: Reader, name: str, step: Step | None, why: str) -> str:
    value: str = reader.read(name, step)
    if not value:
        reader.problems.add(
            reader.path(name, step), f"is missing; it {why}, or name another payload_config.kind"
        )
    return value


def _read_arch(reader: Reader, step: Step | None) -> str:
    arch = _required(reader, "scram_arch", step, "names the architecture of the step")
    if arch and not names.matches(names.SCRAM_ARCH, arch):
        reader.problems.add(reader.path("scram_arch", step), f"{shown(arch)} is not such as el8_amd64_gcc12")
    return arch


def _read_own(reader: Reader, step: Step | None, key: str, kind: Any) -> Any:
    """Return a field that only CMSSW has: the step's own value, else the document's; None if it is absent."""
    scopes = [*([step.scope] if step else []), reader.document.created]
    for scope in scopes:
        value = scope.values.get(key)
        if value is None or value == "":
            continue
        try:
            return kind(value)
        except Refused as refused:
            reader.problems.add(scope.prefix + key, str(refused))
            return None
    return None


def _transient(step: Step | None) -> list[str]:
    found = step.scope.values.get("TransientOutputModules") if step else None
    return [str(label) for label in found] if isinstance(found, list) else []
