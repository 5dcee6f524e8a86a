"""Readers of fields that need more than the table declares: input, resources, sites and directories."""

from __future__ import annotations

from dataclasses import fields, replace
from math import fsum

from requests_app.documents.lookup import Found, Reader
from requests_app.documents.problems import shown
from requests_app.documents.shapes import Step
from requests_app.documents.spec import RequestSpec
from requests_app.documents.table import DOCUMENT, FIELD, Read

MAX_GENERATED = 10**15
MIN_EFFICIENCY = 1e-9

# Placeholder of a refused input, so that it is not also reported as missing.
_REFUSED_INPUT = "/refused/refused/REFUSED"
_IN_SPEC = frozenset(one.name for one in fields(RequestSpec))


def read_plain(reader: Reader) -> RequestSpec:
    """Return the spec with all fields that are read as the table declares."""
    step = {Read.REQUEST: None, Read.FIRST: reader.first}
    plain = [one for one in DOCUMENT if one.read in step and one.name in _IN_SPEC]
    return RequestSpec(**{one.name: reader.read(one.name, step[one.read]) for one in plain})


def read_input(reader: Reader, spec: RequestSpec) -> RequestSpec:
    first = reader.first
    _check_later_steps(reader)
    datasets = _datasets(reader)
    spec = replace(
        spec,
        input_dataset=datasets[0] if datasets else None,
        further_input_datasets=datasets[1:],
        secondary_input_datasets=_secondary(reader),
    )
    events = reader.find("total_events", first)
    if spec.input_from and (datasets or events):
        reader.problems.add(reader.path("input_from"), "excludes input_dataset and total_events")
    if datasets or spec.input_from:
        if events and events.path.endswith("total_events"):
            reader.problems.add(
                events.path, "is for requests without input; to stop early use splitting_params.total_events"
            )
        return spec
    if events is None:
        instead = reader.path("total_events", first)
        reader.problems.add(
            reader.path("input_dataset", first),
            f"is missing; name the dataset to read, or give {instead} to generate events",
        )
    return _generation(reader, spec)


def _datasets(reader: Reader) -> tuple[str, ...]:
    """Return the datasets to process, each once."""
    one, several = (reader.find(name, reader.first) for name in ("input_dataset", "input_datasets"))
    if several is None:
        return (reader.parsed(one, FIELD["input_dataset"].kind, _REFUSED_INPUT),) if one else ()
    datasets: tuple[str, ...] = reader.parsed(several, FIELD["input_datasets"].kind, (_REFUSED_INPUT,))
    if one is not None and datasets != (one.value,):
        reader.problems.add(several.path, f"contradicts {one.path}; keep one of the two")
    return datasets


def _check_later_steps(reader: Reader) -> None:
    for step in reader.document.steps[1:]:
        for name in ("InputDataset", "InputDatasets"):
            if step.scope.values.get(name):
                reader.problems.add(
                    f"{step.scope.prefix}{name}",
                    "only the first step of a chain reads a dataset; submit a separate request for it",
                )


def _generation(reader: Reader, spec: RequestSpec) -> RequestSpec:
    first = reader.first
    names = ("total_events", "filter_efficiency", "first_event", "first_lumi")
    spec = replace(spec, **{name: reader.read(name, first) for name in names})
    if spec.filter_efficiency < MIN_EFFICIENCY or spec.events_to_generate > MAX_GENERATED:
        path = reader.path("filter_efficiency", first)
        reader.problems.add(
            path, f"{spec.filter_efficiency:g} needs too many events; raise it or request fewer events"
        )
        return replace(spec, filter_efficiency=1.0)
    return spec


def _secondary(reader: Reader) -> tuple[str, ...]:
    datasets: dict[str, None] = {}
    for step in reader.document.steps or (None,):
        for name in ("secondary_input_dataset", "secondary_input_datasets", "mc_pileup", "data_pileup"):
            datasets |= dict.fromkeys(reader.read(name, step))
    return tuple(datasets)


def read_resources(reader: Reader, spec: RequestSpec) -> RequestSpec:
    """Set the resources of a job, which runs the whole chain.

    It needs the most memory and cores of any step, and the sum of their times.
    """
    steps = reader.document.steps
    kept = tuple(step for step in steps if step.scope.values.get("KeepOutput") is not False)
    return replace(
        spec,
        memory_mb=max(reader.read("memory_mb", step) for step in steps or (None,)),
        cores=max(reader.read("cores", step) for step in steps or (None,)),
        time_per_event_sec=_summed(reader, "time_per_event_sec", steps),
        size_per_event_kb=_summed(reader, "size_per_event_kb", kept),
    )


def _summed(reader: Reader, name: str, steps: tuple[Step, ...]) -> float:
    """Return the sum over the steps that state the field; otherwise the document's value is for the chain."""
    kind, default = FIELD[name].kind, FIELD[name].default
    of_all = reader.find(name)
    shares = [reader.find(name, step) for step in steps]
    elsewhere = [share for share in shares if share and (of_all is None or share.path != of_all.path)]
    if not elsewhere:
        return float(reader.parsed(of_all, kind, default))
    total = fsum(reader.parsed(share, kind, default) for share in shares)
    return float(reader.parsed(Found(elsewhere[0].path, total), kind, default))


def check_places(reader: Reader, spec: RequestSpec) -> RequestSpec:
    """Return the spec with directories and file size; report contradictions."""
    both = [site for site in spec.site_whitelist if site in spec.site_blacklist]
    if both:
        reader.problems.add(
            reader.path("site_blacklist"), f"{both[0]} is also whitelisted; keep it in one list"
        )
    merged = spec.merged_lfn_base or ("/store/mc" if spec.simulated else "/store/data")
    unmerged = spec.unmerged_lfn_base
    if f"{merged}/".startswith(f"{unmerged}/") or f"{unmerged}/".startswith(f"{merged}/"):
        path = reader.path("merged_lfn_base")
        reader.problems.add(path, f"{shown(merged)} and {shown(unmerged)} overlap; keep final files apart")
    size_kb, largest = spec.target_merged_size_kb, reader.read("max_merge_size")
    if largest is not None and reader.find("target_merged_size_kb") is None:
        size_kb = largest // 1024
    return replace(spec, merged_lfn_base=merged, target_merged_size_kb=size_kb)
