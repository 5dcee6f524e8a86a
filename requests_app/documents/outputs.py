"""Output datasets of a request: those the document lists, else one per task or step that is kept.

A derived name is /Primary/Era[-ProcessingString]-vN/TIER. Documents do not state the tier, so it is taken,
in this order, from the output module that the next step reads, from words in the step's name and era, and
from what usually follows the input's tier. A step whose output module is transient is not kept.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Any

from dags_app.planning.names import dataset_directory
from requests_app.documents.lookup import Reader
from requests_app.documents.problems import shown
from requests_app.documents.shapes import Step
from requests_app.documents.spec import OutputSpec, RequestSpec
from wms2_project.grammar import Name, matches

# File names have at most 500 characters, including subdirectories and the name of the file.
MAX_BASE = 400

_MODULE_TIERS = {
    "LHEoutput": "LHE",
    "FEVTDEBUGoutput": "GEN-SIM",
    "FEVTDEBUGHLToutput": "GEN-SIM-DIGI-RAW",
    "PREMIXRAWoutput": "GEN-SIM-RAW",
    "RECOSIMoutput": "GEN-SIM-RECO",
    "RECOoutput": "RECO",
    "RAWoutput": "RAW",
    "AODoutput": "AOD",
    "AODSIMoutput": "AODSIM",
    "MINIAODoutput": "MINIAOD",
    "MINIAODSIMoutput": "MINIAODSIM",
}
# word in a name -> (tier of data, tier of simulation); the latest stage of processing comes first
_WORD_TIERS = (
    ("NANO", ("NANOAOD", "NANOAODSIM")),
    ("MINI", ("MINIAOD", "MINIAODSIM")),
    ("ALCA", ("ALCARECO", "ALCARECO")),
    ("RECO", ("AOD", "AODSIM")),
    ("AOD", ("AOD", "AODSIM")),
    ("HLT", ("RAW", "GEN-SIM-RAW")),
    ("DIGI", ("RAW", "GEN-SIM-RAW")),
    ("PREMIX", ("PREMIX", "PREMIX")),
    ("SIM", ("GEN-SIM", "GEN-SIM")),
    ("GEN", ("GEN", "GEN")),
    ("LHE", ("LHE", "LHE")),
)
_NEXT_TIER = {
    "LHE": "GEN",
    "GEN": "GEN-SIM",
    "GEN-SIM": "GEN-SIM-RAW",
    "GEN-SIM-RAW": "AODSIM",
    "GEN-SIM-DIGI-RAW": "AODSIM",
    "AODSIM": "MINIAODSIM",
    "MINIAODSIM": "NANOAODSIM",
    "RAW": "AOD",
    "AOD": "MINIAOD",
    "MINIAOD": "NANOAOD",
    "DQMIO": "DQM",
    "USER": "USER",
}
# Tiers whose successor does not depend on names.
_SETTLED_TIERS = frozenset({"DQMIO", "USER"})


@dataclass(frozen=True, slots=True)
class Stage:
    """Outputs of one step, or of a whole document without steps."""

    primary: str
    era: str
    string: str
    version: int
    tier: str
    kept: bool
    step: Step | None


def read_outputs(reader: Reader, spec: RequestSpec) -> RequestSpec:
    """Return the spec with its output datasets, and the naming fields of the first one."""
    listed: tuple[str, ...] = reader.read("output_datasets")
    stages = read_stages(reader, spec, required=not listed)
    first = next((stage for stage in stages if stage.kept), stages[0])
    spec = replace(
        spec,
        primary_dataset=first.primary,
        acquisition_era=first.era,
        processing_string=first.string,
        processing_version=first.version,
    )
    if listed:
        spec = _named_by(reader, spec, listed[0])
    elif not any(stage.kept for stage in stages):
        path = reader.path("keep_output", reader.document.steps[-1] if reader.document.steps else None)
        reader.problems.add(path, "no step keeps its output; set it to true for at least one")
    names = listed or _derived(reader, stages)
    if not set(spec.input_datasets).isdisjoint(names):
        reader.problems.add(
            reader.path("output_datasets" if listed else "processing_version", reader.first),
            "the output dataset equals an input dataset; choose another version or processing string",
        )
    if spec.log_dataset in (*names, *spec.input_datasets):
        reader.problems.add(
            reader.path("log_dataset"), "is also an input or output dataset; choose a name of its own"
        )
    outputs = tuple(output_spec(spec, dataset) for dataset in names)
    logs = (output_spec(spec, spec.log_dataset),) if spec.log_dataset else ()
    bases = [base for one in (*outputs, *logs) for base in (one.merged_lfn_base, one.unmerged_lfn_base)]
    if any(len(base) > MAX_BASE for base in bases):
        reader.problems.add(reader.path("merged_lfn_base"), "file names would be too long; shorten the names")
    return replace(spec, output_datasets=outputs)


def output_spec(spec: RequestSpec, dataset: str) -> OutputSpec:
    """Return the dataset with its directories."""
    bases = (spec.merged_lfn_base, spec.unmerged_lfn_base)
    return OutputSpec(dataset, *(dataset_directory(base, dataset) for base in bases))


def read_stages(reader: Reader, spec: RequestSpec, *, required: bool = False) -> list[Stage]:
    """Return what each step writes; `required`: report missing parts of the datasets' names."""
    steps: tuple[Step | None, ...] = reader.document.steps or (None,)
    stages: list[Stage] = []
    for step in steps:
        parent = stages[step.parent] if step and step.parent is not None else None
        stages.append(_stage(reader, spec, step, parent, required=required))
    return stages


def _stage(
    reader: Reader, spec: RequestSpec, step: Step | None, parent: Stage | None, *, required: bool
) -> Stage:
    inherited = parent.primary if parent else (spec.input_dataset or "//").split("/")[1]
    own = step and step.scope.values.get("PrimaryDataset")
    primary = inherited if parent and not own else reader.read("primary_dataset", step, default=inherited)
    era = reader.read("acquisition_era", step)
    if required:
        _require(reader, "primary_dataset", primary, step, "names the generated process, such as QCD_Pt-15")
        _require(reader, "acquisition_era", era, step, "begins the name of the output, such as Run2024D")
    module = _module_read_from(reader, step)
    return Stage(
        primary=primary,
        era=era,
        string=reader.read("processing_string", step),
        version=reader.read("processing_version", step),
        tier=_tier(spec, step, era, module, parent),
        kept=reader.read("keep_output", step) and not _is_transient(step, module),
        step=step,
    )


def _require(reader: Reader, name: str, value: str, step: Step | None, why: str) -> None:
    if not value:
        reader.problems.add(reader.path(name, step), f"is missing; it {why}")


def _module_read_from(reader: Reader, step: Step | None) -> str:
    """Return the output module of this step that a later one reads; empty if none does."""
    for reading in reader.document.steps:
        if step and reading.parent is not None and reader.document.steps[reading.parent] is step:
            return str(reading.scope.values.get("InputFromOutputModule") or "")
    return ""


def _is_transient(step: Step | None, module: str) -> bool:
    transient: Any = step.scope.values.get("TransientOutputModules") if step else None
    return bool(module) and isinstance(transient, list) and module in transient


def _tier(spec: RequestSpec, step: Step | None, era: str, module: str, parent: Stage | None) -> str:
    read = parent.tier if parent else (spec.input_dataset or "///").split("/")[3]
    if module in _MODULE_TIERS:
        return _MODULE_TIERS[module]
    if read in _SETTLED_TIERS:
        return _NEXT_TIER[read]
    for hint in (step.name.upper() if step else "", era.upper()):
        for word, tiers in _WORD_TIERS:
            if word in hint:
                return tiers[spec.simulated]
    return _NEXT_TIER.get(read, "AODSIM" if spec.simulated else "AOD")


def _derived(reader: Reader, stages: list[Stage]) -> tuple[str, ...]:
    names: list[str] = []
    for stage in stages:
        if not (stage.kept and stage.primary and stage.era):
            continue
        name = _name(stage, stage.string)
        if name in names and stage.step:
            name = _name(stage, f"{stage.string}_{stage.step.name}".lstrip("_"))
        if matches(Name.DATASET, name):
            names.append(name)
        else:
            path = reader.path("processing_string", stage.step)
            reader.problems.add(path, f"the output's name {shown(name)} would be too long; shorten it")
    return tuple(dict.fromkeys(names))


def _name(stage: Stage, string: str) -> str:
    processed = "-".join(part for part in (stage.era, string, f"v{stage.version}") if part)
    return f"/{stage.primary}/{processed}/{stage.tier}"


def _named_by(reader: Reader, spec: RequestSpec, dataset: str) -> RequestSpec:
    """Fill naming fields that the document leaves out from the first dataset it lists."""
    _, primary, processed, _ = dataset.split("/")
    era, _, rest = processed.partition("-")
    ending = re.fullmatch(r"(?:(.+)-)?v([1-9][0-9]{0,3})", rest, re.ASCII)
    versioned = ending is not None and reader.find("processing_version", reader.first) is None
    return replace(
        spec,
        primary_dataset=spec.primary_dataset or primary,
        acquisition_era=spec.acquisition_era or era,
        processing_string=spec.processing_string or (ending and ending[1]) or "",
        processing_version=int(ending[2]) if ending and versioned else spec.processing_version,
    )


def next_version(spec: RequestSpec, *, request_name: str) -> RequestSpec:
    """Return the request that replaces this one, with the next version of every output dataset."""
    return replace(
        spec,
        request_name=request_name,
        previous_version_request=spec.request_name,
        processing_version=spec.processing_version + 1,
        output_datasets=tuple(
            output_spec(spec, _raised(output.dataset, spec.processing_version))
            for output in spec.output_datasets
        ),
    )


def _raised(dataset: str, version: int) -> str:
    _, primary, processed, tier = dataset.split("/")
    ending = re.fullmatch(r"(.+)-v([0-9]{1,9})", processed, re.ASCII)
    stem, number = (ending[1], int(ending[2])) if ending else (processed, version)
    return f"/{primary}/{stem}-v{number + 1}/{tier}"
