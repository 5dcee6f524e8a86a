"""Sample documents of ReqMgr2, where WMS2_SAMPLES holds them: pinned, and the largest of each type run."""

from __future__ import annotations

import json
from typing import Any

import pytest

from cms.types import Configuration
from dags_app.planning.configurations import (
    steps_of,
)
from dags_app.planning.payloads import reads_whole_runs
from lab.seed.cmssw import SAVING
from requests_app.documents.spec import RequestSpec
from sandbox.cmssw.config import read_config
from tests.cmssw_world import MIXING, Node, read_lumi_histogram
from tests.jobs.cmssw.documents import (
    FOLDER,
    configuration,
    generate,
    pinned,
    prepare,
    read,
)


def samples() -> dict[str, dict[str, Any]]:
    """Return the sample documents that name CMSSW, by file and name of the request."""
    found = {}
    for file in sorted(FOLDER.glob("*.json")):
        raw = json.loads(file.read_text())
        alone = "createRequest" in raw or "RequestType" in raw
        dump = raw["result"][0] if "result" in raw else raw
        for name, entry in [("", raw)] if alone else list(dump.items()):
            inner = entry.get("createRequest", entry)
            if inner.get("RequestType") != "Resubmission":
                found[f"{file.stem}:{name}".rstrip(":")] = entry
    return found


def longest(documents: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Return the document of each request type with the most steps and output datasets."""
    chosen: dict[str, tuple[int, int, str]] = {}
    for name, entry in documents.items():
        inner = entry.get("createRequest", entry)
        kind = inner["RequestType"]
        size = (int(inner.get(kind, 1)), len(inner.get("OutputDatasets", ())), name)
        chosen[kind] = max(size, chosen.get(kind, size))
    return {name: documents[name] for _, _, name in chosen.values()}


def parameters(documents: dict[str, dict[str, Any]]) -> list[Any]:
    reason = f"no ReqMgr2 documents in {FOLDER}; set WMS2_SAMPLES to the folder that holds reqmgr2/"
    found = [pytest.param(entry, id=name) for name, entry in documents.items()]
    return found or [pytest.param(None, marks=pytest.mark.skip(reason=reason))]


SAMPLES = samples()


def read_sample(raw: dict[str, Any]) -> RequestSpec:
    spec = read(raw)
    ids = [step.get("config_id") for step in steps_of(spec.payload_config)]
    if len(set(ids)) < len(ids):
        pytest.skip("steps that share a configuration would need the real one")
    return spec


def invented(spec: RequestSpec) -> dict[str, Configuration]:
    """Make up configurations that write what the document wants: the real ones are not public."""
    steps = steps_of(spec.payload_config)
    handed = {(step["parent"], step["module"]) for step in steps if step.get("module")}
    modules: list[dict[str, Any]] = [{} for _ in steps]
    for index, module in sorted(handed):
        modules[index][module] = ("HANDED-ON", "")
    for output in spec.output_datasets:
        _, primary, processed, tier = output.dataset.split("/")
        stem = processed.rpartition("-v")[0]
        writes = [
            index
            for index, step in enumerate(steps)
            if step["keep"] and primary == step.get("primary") and stem.startswith(step.get("era", "?"))
        ] or [index for index, step in enumerate(steps) if step["keep"]]
        free = [index for index in writes if not any(one[0] == tier for one in modules[index].values())]
        modules[(free or writes)[-1]][f"module{len(modules[-1])}{tier.replace('-', '')}"] = (tier, "")
    found: dict[str, Configuration] = {}
    for index, step in enumerate(steps):
        if step.get("harvest"):
            found[step["config_id"]] = configuration(step["config_id"], {}, more=SAVING)
        elif not step.get("merge"):
            generates = index == 0 and spec.generates
            lhe = "LHESource" if step.get("lhe") else "EmptySource"
            mixing = MIXING if step.get("pileup") else ""
            source = lhe if generates else "PoolSource"
            found[step["config_id"]] = configuration(
                step["config_id"], modules[index], source=source, more=mixing
            )
    return found


@pytest.mark.parametrize("raw", parameters(SAMPLES))
def test_sample_document_is_pinned_to_every_dataset(raw: dict[str, Any]) -> None:
    spec = read_sample(raw)

    steps = read_config(pinned(spec, invented(spec))).steps

    written = [dataset for step in steps for dataset in step.outputs.values()]
    assert sorted(written) == sorted(output.dataset for output in spec.output_datasets)


@pytest.mark.parametrize("raw", parameters(longest(SAMPLES)))
def test_sample_document_runs(node: Node, raw: dict[str, Any]) -> None:
    spec = read_sample(raw)
    prepare(node, spec, invented(spec))
    mask = {
        str(run): [list(pair) for pair in pairs] for run, pairs in spec.splitting_params.lumi_mask.items()
    }
    run, pairs = next(iter(spec.splitting_params.lumi_mask.items()), (1, ((1, 2),)))
    if spec.generates:
        made = generate(node, spec, 6)
    else:
        first = pairs[0][0]
        node.read_job(
            [node.add_input("input", run=run, first_lumi=first, lumis=1, events=6)], mask=mask or None
        )
        made = [(run, first, n) for n in range(1, 7)]

    report = node.run()

    assert report["error"] == ""
    assert [one["dataset"] for one in report["outputs"]] == [one.dataset for one in spec.output_datasets]
    if reads_whole_runs(node.payload):
        entries = read_lumi_histogram(node.path(report["outputs"][0]["lfn"]))[1]
        assert sum(entries.values()) == len(made)
        return
    for output in spec.output_datasets:
        assert node.events(report, output.dataset) == made
