"""HTCondor's analysis of an idle job: how many slots meet each of its conditions."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Annotated

MAX_CONDITIONS = 30
MAX_TEXT = 400
_CONDITION = re.compile(r"^\[(?P<step>\d+)\]\s+(?P<slots>\d+)\s+(?P<text>.+)$", re.MULTILINE)
_COUNTS = {
    "slots": re.compile(r"Of (\d+) (?:machines|slots)"),
    "rejected_by_job": re.compile(r"(\d+) are rejected by your job's requirements"),
    "rejecting_job": re.compile(r"(\d+) reject your job because of their own requirements"),
    "busy": re.compile(r"(\d+) match (?:but are serving|and are already running)"),
    "able": re.compile(r"(\d+) are able to run your job"),
}


@dataclass(frozen=True, slots=True)
class Condition:
    """One requirement of an idle job."""

    text: str
    slots: Annotated[int, "Number of slots that match it."]


@dataclass(frozen=True, slots=True)
class MatchAnalysis:
    """HTCondor's own match analysis of one idle job."""

    job_id: str
    counts: dict[str, int]
    conditions: tuple[Condition, ...]
    advice: str


def parse_analysis(text: str) -> MatchAnalysis | None:
    """Parse the first job in the output of `condor_q -better-analyze`; None if there is none."""
    job = re.search(r"^0*(\d+\.\d+):\s+Run analysis summary", text, re.MULTILINE)
    if job is None:
        return None
    counts: dict[str, int] = {}
    for name, pattern in _COUNTS.items():
        found = [int(number) for number in pattern.findall(text)]
        if found:
            counts[name] = sum(found) if name == "busy" else found[0]
    conditions = tuple(
        Condition(" ".join(one["text"].split())[:MAX_TEXT], int(one["slots"]))
        for one in _CONDITION.finditer(text)
    )[:MAX_CONDITIONS]
    _, _, advice = text.partition("Be advised:")
    return MatchAnalysis(
        job_id=f"{job[1].split('.')[0]}.{int(job[1].split('.')[1])}",
        counts=counts,
        conditions=conditions,
        advice=" ".join(advice.split())[:MAX_TEXT],
    )
