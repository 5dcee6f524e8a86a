"""Reads how a request is split into jobs, with ReqMgr2's defaults."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from dags_app.states import SplittingAlgo
from requests_app.documents.lookup import Found, Reader
from requests_app.documents.problems import key_shown, shown
from requests_app.documents.shapes import Scope
from requests_app.documents.spec import RequestSpec, SplittingParams
from requests_app.documents.table import FIELD, SPLITTING, SPLITTING_NAMES, Read

DEFAULT_JOB_SEC = 12 * 3600


def read_splitting(reader: Reader, spec: RequestSpec) -> RequestSpec:
    """Return the spec with its splitting; the first task or step of a chain decides."""
    own = _own_scope(reader)
    inner = reader.within(own)
    values = {one.name: inner.read(one.name, reader.first) for one in SPLITTING if one.read is Read.FIRST}
    for stop in (one for one in SPLITTING if not one.reqmgr2):
        given = own.values.get(stop.name)
        found = None if given is None else Found(own.prefix + stop.name, given)
        values[stop.name] = reader.parsed(found, stop.kind, None)
    params = SplittingParams(**values | _events(inner, spec))
    _check_selection(inner, params, spec)
    # Without files there are no lumis: generation is split by events.
    algo = SplittingAlgo.EVENT_BASED if spec.generates else spec.splitting_algo
    return replace(spec, splitting_algo=algo, splitting_params=params)


def _own_scope(reader: Reader) -> Scope:
    path = reader.path("splitting_params", reader.first)
    values: Mapping[str, Any] = reader.read("splitting_params", reader.first)
    for key in values:
        if key not in SPLITTING_NAMES:
            legal = ", ".join(sorted(one.name for one in SPLITTING))
            reader.problems.add(f"{path}.{key_shown(key)}", f"is not a splitting parameter; use {legal}")
    return Scope(f"{path}.", values)


def _events(reader: Reader, spec: RequestSpec) -> dict[str, Any]:
    step = reader.first
    given = reader.read("events_per_job", step)
    most = FIELD["events_per_job"].kind.schema["maximum"]
    derived = int(max(1, min(DEFAULT_JOB_SEC / spec.time_per_event_sec, most)))
    per_job, per_lumi = given or derived, None
    if spec.generates:
        per_job, per_lumi = fit_events(per_job, reader.read("events_per_lumi", step), spec.events_to_generate)
    fixed = reader.read("events_per_job_fixed", step, default=given is not None)
    return {"events_per_job": per_job, "events_per_job_fixed": fixed, "events_per_lumi": per_lumi}


def fit_events(per_job: int, per_lumi: int | None, wanted: int) -> tuple[int, int]:
    """Return events per job and per lumi: a job has whole lumis and no more events than wanted."""
    per_job = min(per_job, wanted) if wanted else per_job
    if per_lumi is None or per_lumi > per_job:
        return per_job, per_job
    nearest = (2 * per_job + per_lumi) // (2 * per_lumi)
    return nearest * per_lumi, per_lumi


def _check_selection(reader: Reader, chosen: SplittingParams, spec: RequestSpec) -> None:
    def refuse(name: str, message: str) -> None:
        reader.problems.add(reader.path(name, reader.first), message)

    if runs := set(chosen.run_whitelist) & set(chosen.run_blacklist):
        refuse("run_blacklist", f"run {min(runs)} is also whitelisted; keep it in one list")
    if blocks := set(chosen.block_whitelist) & set(chosen.block_blacklist):
        refuse("block_blacklist", f"block {shown(min(blocks))} is also whitelisted; keep it in one list")
    for name in ("block_whitelist", "block_blacklist"):
        foreign = [block for block in getattr(chosen, name) if block.split("#")[0] not in spec.input_datasets]
        if foreign:
            refuse(name, f"{shown(foreign[0])} is not a block of the input; remove it")
