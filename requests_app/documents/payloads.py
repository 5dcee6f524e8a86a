"""Payload of a document: its kind and the validation of its configuration."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from dags_app.planning.payloads import CMSSW, PayloadRefused, PayloadRules, harvest_of, passes_events
from dags_app.states import SplittingAlgo
from requests_app.documents.cmssw import read_section
from requests_app.documents.limits import check_payload_size
from requests_app.documents.lookup import Reader
from requests_app.documents.pulling import check_pull
from requests_app.documents.spec import Allocation, RequestSpec
from requests_app.documents.table import FIELD
from sandbox.cmssw.config import SECTION, HarvestUnit
from sandbox.merge_tools.plain import COPY
from sandbox.usersandbox import DIGEST_FIELD


def resolve_payload(reader: Reader, spec: RequestSpec, rules: PayloadRules) -> RequestSpec:
    """Return the spec with the kind in its payload_config. Report a configuration that no job accepts."""
    path = reader.path("payload_config")
    payload = dict(spec.payload_config)
    if spec.sandbox_url and not spec.sandbox_sha256:
        reader.problems.add(
            reader.path("sandbox_sha256"), "is missing; give the SHA-256 of the tarball at sandbox_url"
        )
    if payload.get(DIGEST_FIELD, spec.sandbox_sha256) != spec.sandbox_sha256 or "sandbox_url" in payload:
        reader.problems.add(path, "names a sandbox; sandbox_url and sandbox_sha256 belong beside it")
    if spec.sandbox_sha256:
        payload[DIGEST_FIELD] = spec.sandbox_sha256
    try:
        payload = rules.with_kind(payload, release=spec.cmssw_version)
        known = reader.problems.count
        if payload["kind"] == CMSSW:
            payload[SECTION] = read_section(reader, spec)
            check_payload_size(payload, reader.problems)
        if harvest := harvest_of(payload):
            payload, spec = _harvesting(reader, spec, payload, unit=str(harvest.get("unit")))
        if passes_events(payload):
            _check_merge(reader, spec)
        check_pull(reader, spec, payload)
        if reader.problems.count == known:
            rules.check(payload)
    except PayloadRefused as refused:
        reader.problems.add(f"{path}.{refused.field}" if refused.field else path, refused.message)
    return replace(spec, payload_config=payload)


def _harvesting(
    reader: Reader, spec: RequestSpec, payload: dict[str, Any], *, unit: str
) -> tuple[dict[str, Any], RequestSpec]:
    """Return payload and spec of a request whose jobs each write one file: of a run, or of all runs."""
    if spec.generates:
        reader.problems.add(reader.path("input_dataset", reader.first), "is missing; it is what is harvested")
    if spec.allocation is Allocation.PULL:
        reader.problems.add(reader.path("allocation"), "cannot be pull: a job harvests all files of a run")
    by_run = unit != HarvestUnit.MULTI_RUN.value
    chosen = replace(
        spec.splitting_params,
        lumis_per_job=FIELD["lumis_per_job"].kind.schema["maximum"],
        halt_job_on_file_boundaries=False,
        split_on_run=by_run,
        gather_runs=by_run,
    )
    spec = replace(spec, splitting_algo=SplittingAlgo.LUMI_BASED, splitting_params=chosen, adaptive=False)
    return {**payload, "merge": {"tool": COPY.name}}, spec


def _check_merge(reader: Reader, spec: RequestSpec) -> None:
    """Report what the kind `merge` does not support: it joins whole files of a dataset into one dataset."""
    chosen, first = spec.splitting_params, reader.first
    if spec.generates:
        reader.problems.add(
            reader.path("input_dataset", first), "is missing; the kind merge joins files of a dataset"
        )
    elif spec.splitting_algo is not SplittingAlgo.FILE_BASED:
        reader.problems.add(
            reader.path("splitting_algo", first), "is not FileBased; the kind merge reads whole files"
        )
    for name in ("lumi_mask", "run_whitelist", "run_blacklist", "total_events", "total_lumis"):
        if getattr(chosen, name):
            path = f"{reader.path('splitting_params', first)}.{name}"
            reader.problems.add(path, "cannot be used with the kind merge, which reads whole files")
    if len(spec.output_datasets) > 1:
        reader.problems.add(
            reader.path("output_datasets"), "names several datasets; the kind merge writes a single one"
        )
