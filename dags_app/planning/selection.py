"""Which runs and lumis of a dataset are wanted. Works on ranges, never on single lumis."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from dags_app.planning.types import LumiRange


def selects_everything(params: Mapping[str, Any]) -> bool:
    """Does the request want the whole dataset?"""
    return not any(params.get(key) for key in ("run_whitelist", "run_blacklist", "lumi_mask"))


def wanted_lumis(lumis: Sequence[LumiRange], params: Mapping[str, Any]) -> tuple[LumiRange, ...]:
    """The parts of these ranges that the run lists and the lumi mask leave."""
    allowed = {int(run) for run in params.get("run_whitelist") or ()}
    refused = {int(run) for run in params.get("run_blacklist") or ()}
    mask = {int(run): ranges for run, ranges in (params.get("lumi_mask") or {}).items()}
    wanted: list[LumiRange] = []
    for run, first, last in lumis:
        if (allowed and run not in allowed) or run in refused:
            continue
        if not mask:
            wanted.append((run, first, last))
            continue
        for low, high in mask.get(run, ()):
            if max(first, low) <= min(last, high):
                wanted.append((run, max(first, low), min(last, high)))
    return tuple(sorted(wanted))
