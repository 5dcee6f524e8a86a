"""Output patterns of a pull workflow: the dataset, or scratch, of each output file. Pure.

`payload_config.outputs` lists them: `{"pattern": "*.root", "dataset": "/A/B/C", "lifetime_days": 30}`, or
with `"scratch": true` for files that enter no catalogue. A pattern that names neither gets a dataset of its
own.
"""

from __future__ import annotations

import fnmatch
import re
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dags_app.planning import names

FIELD = "outputs"
MAX_PATTERNS = 100
MAX_LIFETIME_DAYS = 10_000
_PATTERN = re.compile(r"[A-Za-z0-9_.*?\[\]!-]{1,100}", re.ASCII)
FILE_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.=-]{0,199}", re.ASCII)
_KNOWN = frozenset({"pattern", "dataset", "scratch", "lifetime_days"})


class BadPatterns(Exception):
    """`payload_config.outputs` is not usable; the message names the entry and the cure."""


@dataclass(frozen=True, slots=True)
class OutputPattern:
    """Shell wildcards for names of output files; files go into the dataset, or to scratch if it is empty."""

    number: int  # from 1
    pattern: str
    dataset: str
    lifetime_days: int | None = None

    def matches(self, name: str) -> bool:
        """Return whether a file of this name belongs to the pattern."""
        return fnmatch.fnmatchcase(name, self.pattern)


@dataclass(frozen=True, slots=True)
class Naming:
    """Parts of the names of generated datasets and files."""

    workflow_number: int
    primary_dataset: str
    version: int
    step: int = 1

    def dataset(self, pattern: int) -> str:
        """Return the dataset of a pattern that names none."""
        primary = self.primary_dataset or "Pull"
        return f"/{primary}/w{self.workflow_number}s{self.step}p{pattern}-v{self.version}/USER"


def read_patterns(
    payload: Mapping[str, Any], *, output_datasets: Sequence[str], naming: Naming | None
) -> tuple[OutputPattern, ...]:
    """Return the patterns of a payload_config. Raise BadPatterns naming the entry that is wrong.

    Without `outputs`, the files of the payload go into the output datasets by their numbers. Without a
    naming, datasets that would be generated are left empty, which is enough to validate a document.
    """
    given = payload.get(FIELD)
    if given is None:
        numbered = len(output_datasets) > 1
        return tuple(
            OutputPattern(number, f"*.{number - 1}.root" if numbered else "*.root", dataset)
            for number, dataset in enumerate(output_datasets, start=1)
        )
    if not isinstance(given, list) or not 1 <= len(given) <= MAX_PATTERNS:
        raise BadPatterns(f"expected a list of 1 to {MAX_PATTERNS} objects with a pattern")
    return tuple(_read(number, entry, output_datasets, naming) for number, entry in enumerate(given, start=1))


def _read(number: int, entry: Any, output_datasets: Sequence[str], naming: Naming | None) -> OutputPattern:
    if not isinstance(entry, dict) or not isinstance(entry.get("pattern"), str):
        raise BadPatterns(f"entry {number} is not an object with a pattern")
    unknown = sorted(set(entry) - _KNOWN)
    if unknown:
        raise BadPatterns(
            f"entry {number}: unknown member {unknown[0]!r:.80}; use {', '.join(sorted(_KNOWN))}"
        )
    if not _PATTERN.fullmatch(entry["pattern"]):
        raise BadPatterns(
            f"entry {number}: pattern {entry['pattern']!r:.80} is not a name with shell wildcards"
        )
    days = entry.get("lifetime_days")
    if days is not None and (type(days) is not int or not 1 <= days <= MAX_LIFETIME_DAYS):
        raise BadPatterns(
            f"entry {number}: lifetime_days must be a whole number from 1 to {MAX_LIFETIME_DAYS}"
        )
    scratch, dataset = entry.get("scratch", False), entry.get("dataset")
    if not isinstance(scratch, bool) or (scratch and dataset is not None):
        raise BadPatterns(f"entry {number}: scratch must be true or false, and excludes a dataset")
    if dataset is not None and dataset not in output_datasets:
        raise BadPatterns(
            f"entry {number}: {dataset!r:.200} is not one of the output datasets of the request"
        )
    if scratch or dataset is not None:
        return OutputPattern(number, entry["pattern"], dataset or "", days)
    return OutputPattern(number, entry["pattern"], naming.dataset(number) if naming else "", days)


def generated_datasets(payload: Mapping[str, Any], naming: Naming) -> list[str]:
    """Return the datasets of the patterns that name none."""
    given = payload.get(FIELD) or []
    unnamed = (
        number
        for number, entry in enumerate(given, start=1)
        if entry.get("dataset") is None and not entry.get("scratch")
    )
    return [naming.dataset(number) for number in unnamed]


def pattern_of(name: str, patterns: Iterable[OutputPattern]) -> OutputPattern | None:
    """Return the first pattern that the name matches."""
    return next((one for one in patterns if one.matches(name)), None)


def output_lfn(*, runner_id: str, name: str, dataset: str, merged_base: str, scratch_base: str) -> str:
    """Return the LFN of an output. It is unique to the runner, and the same if the runner asks again."""
    unique = uuid.uuid5(names.NAMESPACE, f"output {runner_id} {name}").hex
    if not dataset:
        return f"{scratch_base}/{unique}-{name}"
    suffix = name.rpartition(".")[2] if "." in name[1:] else "dat"
    return f"{names.dataset_directory(merged_base, dataset)}/{unique}.{suffix}"
