"""Real ReqMgr2 documents: runnable ones are imported unmodified, others refused with a reason per field."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from requests_app.documents import read_document
from wms2_project.errors import InvalidInput

CHECKOUT = Path(__file__).resolve().parents[3]
FOLDER = Path(os.environ.get("WMS2_SAMPLES", CHECKOUT.parent / "shared" / "samples")) / "reqmgr2"


def documents() -> list[Any]:
    found = []
    for file in sorted(FOLDER.glob("*.json")):
        raw = json.loads(file.read_text())
        alone = "createRequest" in raw or "RequestType" in raw
        dump = raw["result"][0] if "result" in raw else raw
        entries = [("", raw)] if alone else list(dump.items())
        found += [pytest.param(entry, id=f"{file.stem}:{name}".rstrip(":")) for name, entry in entries]
    reason = f"no ReqMgr2 documents in {FOLDER}; set WMS2_SAMPLES to the folder that holds reqmgr2/"
    return found or [pytest.param(None, marks=pytest.mark.skip(reason=reason))]


def is_resubmission(raw: dict[str, Any]) -> bool:
    return "ACDCServer" in raw.get("createRequest", raw)


@pytest.mark.parametrize("raw", documents())
def test_document_is_imported_unmodified_or_refused_with_a_reason(raw: dict[str, Any]) -> None:
    before = json.dumps(raw)
    if is_resubmission(raw):
        with pytest.raises(InvalidInput) as error:
            read_document(raw)
        assert {"createRequest.ACDCServer", "createRequest.OriginalRequestName"} <= set(error.value.fields)
        return

    spec = read_document(raw)

    assert json.dumps(raw) == before
    assert spec.output_datasets
    assert read_document(spec.to_document()) == spec
    stated = raw.get("OutputDatasets") or [output.dataset for output in spec.output_datasets]
    assert [output.dataset for output in spec.output_datasets] == stated
    directories = raw.get("OutputModulesLFNBases")
    if directories:
        assert {output.unmerged_lfn_base for output in spec.output_datasets} <= set(directories)
