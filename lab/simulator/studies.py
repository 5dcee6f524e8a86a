"""Comparisons of two simulations that differ in one policy of WMS2."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

from django.conf import settings

from lab.simulator import schedd
from lab.simulator.laboratory import wipe
from lab.simulator.month import Load, run_month


@dataclass(frozen=True, slots=True)
class Study:
    """A load, the settings without the policy, and the measure that the policy should lower by `goal`."""

    load: Load
    without: Mapping[str, Any]
    measure: str
    goal: float
    boosts: bool = True  # also without the policy
    given: Mapping[str, Any] = field(default_factory=dict)  # settings of both runs


STUDIES = {
    "tail": Study(
        Load(10, 530, 3.0, slow_slots=0.02, failing=0.0, patience=4.0),
        {"STRAGGLER_FACTOR": 0.0},
        "makespan_days",
        goal=0.2,
        boosts=False,
    ),
    "learning": Study(
        Load(50, 53, 10.0, bad_site=0.9, failing=0.01, per_hour=0.25, patience=4.0),
        {"LEARN_FROM_REQUESTS": 0},
        "wasted_hours",
        goal=0.3,
        given={"ERROR_HOLD_THRESHOLD": 1.1},  # there is no operator to release requests
    ),
}


def run_study(name: str, directory: Path, *, seed: int, tell: Callable[[str], None]) -> dict[str, Any]:
    """Run the study without and with its policy. Return both reports and the improvement."""
    study = STUDIES[name]
    load = replace(study.load, seed=seed)
    with _policy({**study.given, **study.without}, boosts=study.boosts):
        before = run_month(load, directory / "without", tell=tell)
    wipe()
    with _policy(study.given, boosts=True):
        after = run_month(load, directory / "with", tell=tell)
    gained = 1 - after[study.measure] / max(before[study.measure], 1e-9)
    problems = before["problems"] + after["problems"]
    return {
        "study": name,
        "seed": seed,
        "measure": study.measure,
        "without": before[study.measure],
        "with": after[study.measure],
        "gained": round(gained, 3),
        "goal": study.goal,
        "reached": gained >= study.goal and not problems,
        "problems": problems,
        "reports": [
            {key: value for key, value in one.items() if key not in ("samples", "gantt")}
            for one in (before, after)
        ],
    }


@contextmanager
def _policy(changes: Mapping[str, Any], *, boosts: bool) -> Iterator[None]:
    with ExitStack() as stack:
        for name, value in changes.items():
            stack.enter_context(patch.object(settings, name, value))
        if not boosts:
            stack.enter_context(patch.object(schedd, "boost", lambda _role: 0))
            stack.enter_context(patch.object(schedd, "RETRY_BOOST", 0))
        yield
