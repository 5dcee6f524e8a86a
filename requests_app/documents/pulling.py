"""Fields of documents with allocation pull: what goes together and what does not."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dags_app.pull.outputs import FIELD, BadPatterns, read_patterns
from requests_app.documents.lookup import Reader
from requests_app.documents.spec import Allocation, RequestSpec

_ONLY_PULL = ("input_from", "follow_input_until")
# Runners are lent whole files
_NOT_PULL = ("lumi_mask", "run_whitelist", "run_blacklist", "total_files", "total_lumis", "total_events")


def check_pull(reader: Reader, spec: RequestSpec, payload: Mapping[str, Any]) -> None:
    """Report what cannot be used with the allocation of the document."""
    problems = reader.problems
    if spec.allocation is not Allocation.PULL:
        for name in _ONLY_PULL:
            if getattr(spec, name):
                problems.add(reader.path(name), "needs allocation pull")
        for name in ("jobscript", FIELD):
            if name in payload:
                problems.add(f"{reader.path('payload_config')}.{name}", "needs allocation pull")
        return
    for name in _NOT_PULL:
        if getattr(spec.splitting_params, name):
            path = f"{reader.path('splitting_params', reader.first)}.{name}"
            problems.add(path, "cannot be used with allocation pull, which lends whole files")
    if spec.log_dataset:
        problems.add(reader.path("log_dataset"), "cannot be used with allocation pull, which has no groups")
    if spec.follow_input_until and not spec.input_dataset:
        problems.add(reader.path("follow_input_until"), "needs input_dataset")
    try:
        datasets = [output.dataset for output in spec.output_datasets]
        read_patterns(payload, output_datasets=datasets, naming=None)
    except BadPatterns as bad:
        problems.add(f"{reader.path('payload_config')}.{FIELD}", str(bad))
