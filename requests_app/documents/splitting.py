"""Reads how a request is to be cut into jobs, with ReqMgr2's defaults where the document is silent."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from dags_app.states import SplittingAlgo
from requests_app.documents.lookup import Found, Reader
from requests_app.documents.names import SPLITTING_NAMES
from requests_app.documents.parsers import choice, flag, lumi_mask, named, runs, several, whole
from requests_app.documents.problems import key_shown, shown
from requests_app.documents.shapes import Scope
from requests_app.documents.spec import LumiMode, RequestSpec, SplittingParams
from wms2_project.grammar import Name

DEFAULT_JOB_SEC = 12 * 3600
MAX_EVENTS_PER_JOB = 1_000_000_000
MAX_EARLY_STOP = 10**12
MAX_JOB_TIME_SEC = 30 * 24 * 3600


def read_splitting(reader: Reader, spec: RequestSpec) -> RequestSpec:
    """The spec with its splitting; the first task or step of a chain decides."""
    algo = reader.get(
        "splitting_algo", choice(SplittingAlgo), SplittingAlgo.EVENT_AWARE_LUMI_BASED, reader.first
    )
    own = _own_scope(reader)
    params = _selection(reader.within(own), _sizes(reader.within(own), SplittingParams(), spec), spec)
    params = replace(
        params,
        total_files=_early_stop(reader, own, "total_files"),
        total_lumis=_early_stop(reader, own, "total_lumis"),
        total_events=_early_stop(reader, own, "total_events"),
    )
    # Without files there are no lumis to go by: a generator can only count events.
    return replace(
        spec,
        splitting_algo=SplittingAlgo.EVENT_BASED if spec.generates else algo,
        splitting_params=params,
    )


def _own_scope(reader: Reader) -> Scope:
    found = reader.find("splitting_params", reader.first)
    if found is None:
        return Scope("", {})
    if not isinstance(found.value, Mapping):
        reader.problems.add(found.path, f"{shown(found.value)} is not an object; write {{parameter: value}}")
        return Scope("", {})
    for key in found.value:
        if key not in SPLITTING_NAMES:
            legal = ", ".join(sorted(name for name in SPLITTING_NAMES if name.islower()))
            reader.problems.add(f"{found.path}.{key_shown(key)}", f"is no splitting parameter; use {legal}")
    return Scope(f"{found.path}.", found.value)


def _early_stop(reader: Reader, own: Scope, name: str) -> int | None:
    value = own.values.get(name)
    found = None if value is None else Found(own.prefix + name, value)
    return reader.parsed(found, whole(1, MAX_EARLY_STOP), None)


def _sizes(reader: Reader, params: SplittingParams, spec: RequestSpec) -> SplittingParams:
    step = reader.first
    events = whole(1, MAX_EVENTS_PER_JOB)
    given = reader.get("events_per_job", events, None, step)
    derived = int(max(1, min(DEFAULT_JOB_SEC / spec.time_per_event_sec, MAX_EVENTS_PER_JOB)))
    per_job, per_lumi = given or derived, None
    if spec.generates:
        per_lumi = reader.get("events_per_lumi", events, None, step)
        per_job, per_lumi = fit_events(per_job, per_lumi, spec.events_to_generate)
    return replace(
        params,
        files_per_job=reader.get("files_per_job", whole(1, 100_000), params.files_per_job, step),
        events_per_job=per_job,
        events_per_job_fixed=reader.get("events_per_job_fixed", flag, given is not None, step),
        events_per_lumi=per_lumi,
        lumi_mode=reader.get("lumi_mode", choice(LumiMode), params.lumi_mode, step),
        lumis_per_job=reader.get("lumis_per_job", whole(1, 1_000_000), params.lumis_per_job, step),
        job_time_limit=reader.get(
            "job_time_limit", whole(1, MAX_JOB_TIME_SEC, "seconds"), params.job_time_limit, step
        ),
        include_parents=reader.get("include_parents", flag, False, step),
        split_on_run=reader.get("split_on_run", flag, True, step),
        halt_job_on_file_boundaries=reader.get("halt_job_on_file_boundaries", flag, False, step),
        apply_lumi_correction=reader.get("apply_lumi_correction", flag, False, step),
    )


def fit_events(per_job: int, per_lumi: int | None, wanted: int) -> tuple[int, int]:
    """Generated lumis are never cut: a job makes whole lumis, and no more events than are wanted."""
    per_job = min(per_job, wanted) if wanted else per_job
    if per_lumi is None or per_lumi > per_job:
        return per_job, per_job
    nearest = (2 * per_job + per_lumi) // (2 * per_lumi)
    return nearest * per_lumi, per_lumi


def _selection(reader: Reader, params: SplittingParams, spec: RequestSpec) -> SplittingParams:
    step = reader.first
    blocks = several(named(Name.BLOCK))
    chosen = replace(
        params,
        run_whitelist=reader.get("run_whitelist", runs, (), step),
        run_blacklist=reader.get("run_blacklist", runs, (), step),
        block_whitelist=reader.get("block_whitelist", blocks, (), step),
        block_blacklist=reader.get("block_blacklist", blocks, (), step),
        lumi_mask=reader.get("lumi_mask", lumi_mask, {}, step),
    )
    both = set(chosen.run_whitelist) & set(chosen.run_blacklist)
    if both:
        reader.problems.add(
            reader.path("run_blacklist", step), f"run {min(both)} is also whitelisted; keep it in one list"
        )
    both_blocks = set(chosen.block_whitelist) & set(chosen.block_blacklist)
    if both_blocks:
        reader.problems.add(
            reader.path("block_blacklist", step),
            f"block {shown(min(both_blocks))} is also whitelisted; keep it in one list",
        )
    for name, listed in (
        ("block_whitelist", chosen.block_whitelist),
        ("block_blacklist", chosen.block_blacklist),
    ):
        foreign = [block for block in listed if block.split("#")[0] != spec.input_dataset]
        if foreign:
            reader.problems.add(
                reader.path(name, step), f"{shown(foreign[0])} is no block of the input dataset; remove it"
            )
    return chosen
