"""The next version of a request: the same work under new output names."""

from __future__ import annotations

import re
from dataclasses import replace

from requests_app.documents.outputs import output_spec
from requests_app.documents.spec import RequestSpec


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
