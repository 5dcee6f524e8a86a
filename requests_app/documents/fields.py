"""Reads the typed fields of a request, concern by concern; each function fills its part of the spec."""

from __future__ import annotations

from dataclasses import replace
from math import fsum

from requests_app.documents.lookup import Found, Reader
from requests_app.documents.parsers import (
    Parse,
    choice,
    first_of,
    flag,
    limits,
    named,
    positive,
    secure_url,
    several,
    text,
    whole,
)
from requests_app.documents.problems import shown
from requests_app.documents.shapes import Step
from requests_app.documents.spec import Allocation, Backend, RequestSpec
from requests_app.states import CleanupPolicy
from wms2_project.grammar import Name

MAX_PRIORITY = 1_000_000
MAX_MEMORY_MB = 2_000_000
MAX_CORES = 512
MAX_EVENT_SEC = 864_000.0
MAX_EVENT_KB = 100_000_000.0
MAX_EVENTS = 10**12
MAX_GENERATED = 10**15
MAX_NUMBER = 2**32 - 1
MAX_MERGED_KB = 1_000_000_000
MAX_SITES = 1000
# At most so many at a time. Every running group is a DAGMan, of which a schedd runs 200 for one owner.
MAX_THROTTLES = {"Processing": 100_000, "Merge": 10_000, "Cleanup": 10_000, "MergeGroup": 150}
MAX_SECONDARY = 50
MIN_EFFICIENCY = 1e-9

WORD = named(Name.WORD)
_SHORT_WORD = named(Name.WORD, 100)
_TOKEN = text(r"[A-Za-z0-9][A-Za-z0-9_.:@/=+-]{0,199}", "letters, digits and any of _ . : @ / = + -")
_SUBMITTER = text(r"[A-Za-z0-9_.:@=/+ -]{1,240}", "letters, digits, spaces and any of _ . : @ / = + -")
_DN = text(r"/[A-Za-z0-9 ._@=/:,'()+-]{1,400}", "a distinguished name such as /DC=ch/CN=ana")
_GLOBAL_TAG = text(r"[A-Za-z0-9][A-Za-z0-9_.:-]{0,199}", "letters, digits and any of _ . : -")
_DATASET = named(Name.DATASET)
# Stands for an input that was refused, so that no message is about a missing one.
_REFUSED_INPUT = "/refused/refused/REFUSED"


def read_identity(reader: Reader) -> RequestSpec:
    default = RequestSpec()
    return RequestSpec(
        requestor=reader.get("requestor", _SHORT_WORD, default.requestor),
        requestor_dn=reader.get("requestor_dn", _DN, ""),
        group=reader.get("group", _SHORT_WORD, ""),
        prep_id=reader.get("prep_id", WORD, ""),
        priority=reader.get("priority", whole(0, MAX_PRIORITY), default.priority),
        urgent=reader.get("urgent", flag, False),
        adaptive=reader.get("adaptive", flag, False),
        previous_version_request=reader.get("previous_version_request", named(Name.REQUEST), ""),
        cleanup_policy=reader.get("cleanup_policy", choice(CleanupPolicy), default.cleanup_policy),
    )


def read_service(reader: Reader, spec: RequestSpec) -> RequestSpec:
    return replace(
        spec,
        allocation=reader.get("allocation", choice(Allocation), spec.allocation),
        wms_backend=reader.get("wms_backend", choice(Backend), spec.wms_backend),
        correlation_id=reader.get("correlation_id", _TOKEN, ""),
        submitted_by=reader.get("submitted_by", _SUBMITTER, ""),
        callback_url=reader.get("callback_url", secure_url, ""),
    )


def read_input(reader: Reader, spec: RequestSpec) -> RequestSpec:
    first = reader.first
    found = reader.find("input_dataset", first)
    dataset = reader.parsed(found, _DATASET, _REFUSED_INPUT) if found else None
    for step in reader.document.steps[1:]:
        if step.scope.values.get("InputDataset"):
            path = f"{step.scope.prefix}InputDataset"
            reader.problems.add(
                path, "only the first of a chain reads a dataset; submit a request of its own"
            )
    spec = replace(spec, input_dataset=dataset, secondary_input_datasets=_secondary(reader))
    events = reader.find("total_events", first)
    if dataset is not None:
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


def _generation(reader: Reader, spec: RequestSpec) -> RequestSpec:
    first = reader.first
    spec = replace(
        spec,
        total_events=reader.get("total_events", whole(1, MAX_EVENTS), None, first),
        filter_efficiency=reader.get("filter_efficiency", positive(1.0), 1.0, first),
        first_event=reader.get("first_event", whole(1, MAX_NUMBER), 1, first),
        first_lumi=reader.get("first_lumi", whole(1, MAX_NUMBER), 1, first),
    )
    if spec.filter_efficiency < MIN_EFFICIENCY or spec.events_to_generate > MAX_GENERATED:
        path = reader.path("filter_efficiency", first)
        reader.problems.add(
            path, f"{spec.filter_efficiency:g} asks for too many events; raise it or ask for fewer"
        )
        return replace(spec, filter_efficiency=1.0)
    return spec


def _secondary(reader: Reader) -> tuple[str, ...]:
    parse = several(_DATASET, MAX_SECONDARY)
    datasets: dict[str, None] = {}
    for step in reader.document.steps or (None,):
        for name in ("secondary_input_dataset", "secondary_input_datasets", "mc_pileup", "data_pileup"):
            listed: tuple[str, ...] = reader.get(name, parse, (), step)
            datasets |= dict.fromkeys(listed)
    return tuple(datasets)


def read_resources(reader: Reader, spec: RequestSpec) -> RequestSpec:
    """One job runs the whole chain: it needs the most memory and cores of any step, and all their time."""
    steps = reader.document.steps
    memory, cores = whole(1, MAX_MEMORY_MB, "MB"), whole(1, MAX_CORES)
    seconds, size = positive(MAX_EVENT_SEC, "seconds"), positive(MAX_EVENT_KB, "kB")
    kept = tuple(step for step in steps if step.scope.values.get("KeepOutput") is not False)
    return replace(
        spec,
        memory_mb=max(reader.get("memory_mb", memory, spec.memory_mb, step) for step in steps or (None,)),
        cores=max(reader.get("cores", cores, spec.cores, step) for step in steps or (None,)),
        time_per_event_sec=_summed(reader, "time_per_event_sec", seconds, spec.time_per_event_sec, steps),
        size_per_event_kb=_summed(reader, "size_per_event_kb", size, spec.size_per_event_kb, kept),
        category_throttles=reader.get("category_throttles", limits(MAX_THROTTLES), {}),
    )


def _summed(reader: Reader, name: str, parse: Parse[float], default: float, steps: tuple[Step, ...]) -> float:
    """Steps that state their own share add up; otherwise the document speaks for the whole chain."""
    of_all = reader.find(name)
    shares = [reader.find(name, step) for step in steps]
    elsewhere = [share for share in shares if share and (of_all is None or share.path != of_all.path)]
    if not elsewhere:
        return reader.parsed(of_all, parse, default)
    total = fsum(reader.parsed(share, parse, default) for share in shares)
    return reader.parsed(Found(elsewhere[0].path, total), parse, default)


def read_software(reader: Reader, spec: RequestSpec) -> RequestSpec:
    first = reader.first
    return replace(
        spec,
        cmssw_version=reader.get("cmssw_version", named(Name.RELEASE, 100), "", first),
        scram_arch=reader.get("scram_arch", first_of(_SHORT_WORD), "", first),
        global_tag=reader.get("global_tag", _GLOBAL_TAG, "", first),
        sandbox_url=reader.get("sandbox_url", secure_url, ""),
        config_cache_id=reader.get("config_cache_id", _SHORT_WORD, "", first),
    )


def read_places(reader: Reader, spec: RequestSpec) -> RequestSpec:
    sites = several(named(Name.SITE), MAX_SITES)
    allowed: tuple[str, ...] = reader.get("site_whitelist", sites, ())
    banned: tuple[str, ...] = reader.get("site_blacklist", sites, ())
    both = [site for site in allowed if site in banned]
    if both:
        reader.problems.add(
            reader.path("site_blacklist"), f"{both[0]} is also whitelisted; keep it in one list"
        )
    merged = _base(reader, "merged_lfn_base", "/store/mc" if spec.simulated else "/store/data")
    unmerged = _base(reader, "unmerged_lfn_base", spec.unmerged_lfn_base)
    if f"{merged}/".startswith(f"{unmerged}/") or f"{unmerged}/".startswith(f"{merged}/"):
        path = reader.path("merged_lfn_base")
        reader.problems.add(path, f"{shown(merged)} and {shown(unmerged)} overlap; keep final files apart")
    largest = reader.get("max_merge_size", whole(1024, MAX_MERGED_KB * 1024, "bytes"), None)
    merged_kb = spec.target_merged_size_kb if largest is None else largest // 1024
    return replace(
        spec,
        site_whitelist=allowed,
        site_blacklist=banned,
        merged_lfn_base=merged,
        unmerged_lfn_base=unmerged,
        target_merged_size_kb=reader.get("target_merged_size_kb", whole(1, MAX_MERGED_KB, "kB"), merged_kb),
    )


def _base(reader: Reader, name: str, default: str) -> str:
    def parse(value: object) -> str:
        return named(Name.LFN_BASE)(value.rstrip("/") if isinstance(value, str) else value)

    return reader.get(name, parse, default)
