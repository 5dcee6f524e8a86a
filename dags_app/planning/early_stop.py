"""Early stops: requests for a limited number of files, lumis or events.

They narrow the input once, before planning, so that all rounds together read exactly that much.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from dags_app.planning.coverage import cuts_by_events, left_of, narrowed, part_read
from dags_app.planning.lumis import normalised
from dags_app.planning.splitters import SPLITTERS, split
from dags_app.planning.types import FileSpec, PlanSpec
from dags_app.states import SplittingAlgo
from sandbox.lumis import LumiRange


def early_stop(algo: SplittingAlgo, params: Mapping[str, Any]) -> str:
    """Return the parameter that stops this algorithm early; empty if none is set."""
    name = SPLITTERS[algo].total
    return name if params.get(name) else ""


def without_early_stop(spec: PlanSpec) -> PlanSpec:
    """Return the spec for input that was narrowed already."""
    totals = {splitter.total for splitter in SPLITTERS.values()}
    return replace(spec, params={k: v for k, v in spec.params.items() if k not in totals})


def narrow(spec: PlanSpec, files: Sequence[FileSpec]) -> list[FileSpec]:
    """Return the files that an early stop leaves; the last one possibly in part."""
    by_events = cuts_by_events(spec.algo)
    # The size of jobs does not matter here: one window per file, not millions of them.
    params = {**spec.params, "events_per_job": sys.maxsize} if by_events else spec.params
    taken: dict[str, list[LumiRange]] = {}
    for job in split(spec.algo, files, params):
        for window in job.files:
            taken.setdefault(window.file.lfn, []).extend(part_read(window, job, by_events=by_events))
    kept = []
    for file in files:
        if file.lfn in taken:
            part = normalised(taken[file.lfn])
            whole = part == left_of(file, by_events=by_events)
            kept.append(file if whole else narrowed(file, part, by_events=by_events))
    return kept
