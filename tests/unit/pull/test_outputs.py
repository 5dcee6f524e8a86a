"""Output patterns of pull requests."""

from __future__ import annotations

from typing import Any

import pytest

from dags_app.pull.outputs import (
    BadPatterns,
    Naming,
    OutputPattern,
    generated_datasets,
    output_lfn,
    pattern_of,
    read_patterns,
)
from wms2_project.grammar import Name, matches

AOD, MINI = "/Muons/Era-Proc-v1/AOD", "/Muons/Era-Proc-v1/MINIAOD"
NAMING = Naming(workflow_number=12, primary_dataset="Muons", version=3)


def read(entries: Any) -> tuple[OutputPattern, ...]:
    return read_patterns({"outputs": entries}, output_datasets=[AOD, MINI], naming=NAMING)


def test_without_patterns_files_go_to_datasets_by_their_numbers() -> None:
    assert read_patterns({}, output_datasets=[AOD], naming=NAMING) == (OutputPattern(1, "*.root", AOD),)
    both = read_patterns({}, output_datasets=[AOD, MINI], naming=NAMING)
    assert [(one.pattern, one.dataset) for one in both] == [("*.0.root", AOD), ("*.1.root", MINI)]


def test_a_pattern_names_a_dataset_scratch_or_nothing() -> None:
    found = read(
        [
            {"pattern": "*.root", "dataset": MINI, "lifetime_days": 30},
            {"pattern": "*.log", "scratch": True},
            {"pattern": "*"},
        ]
    )
    assert [(one.dataset, one.lifetime_days) for one in found] == [
        (MINI, 30),
        ("", None),
        ("/Muons/w12s1p3-v3/USER", None),
    ]
    assert matches(Name.DATASET, found[2].dataset)


def test_the_first_matching_pattern_applies() -> None:
    patterns = read([{"pattern": "a*", "dataset": AOD}, {"pattern": "*.root", "dataset": MINI}])
    assert [getattr(pattern_of(name, patterns), "number", None) for name in ("a.root", "b.root", "c")] == [
        1,
        2,
        None,
    ]


def test_datasets_are_generated_for_patterns_without_a_dataset() -> None:
    entries = [{"pattern": "*.root", "dataset": AOD}, {"pattern": "*.log", "scratch": True}, {"pattern": "*"}]
    assert generated_datasets({"outputs": entries}, NAMING) == ["/Muons/w12s1p3-v3/USER"]


@pytest.mark.parametrize(
    "entries",
    [
        [],
        "x",
        [{}],
        [{"pattern": "../*"}],
        [{"pattern": "a b"}],
        [{"pattern": "*", "dataset": "/Other/Era-v1/AOD"}],
        [{"pattern": "*", "dataset": AOD, "scratch": True}],
        [{"pattern": "*", "scratch": 1}],
        [{"pattern": "*", "lifetime_days": 0}],
        [{"pattern": "*", "lifetime_days": True}],
        [{"pattern": "*", "colour": "red"}],
        [{"pattern": "*"}] * 101,
    ],
)
def test_bad_patterns_are_refused(entries: Any) -> None:
    with pytest.raises(BadPatterns):
        read(entries)


def test_names_of_outputs_are_legal_and_unique_to_the_runner() -> None:
    def lfn(runner: str, dataset: str = AOD) -> str:
        return output_lfn(
            runner_id=runner, name="a.b.root", dataset=dataset, merged_base="/store/data",
            scratch_base="/store/unmerged/scratch/r",
        )  # fmt: skip

    assert lfn("1") == lfn("1") != lfn("2")
    assert lfn("1").startswith("/store/data/Era/Muons/AOD/Proc-v1/")
    assert lfn("1").endswith(".root")
    assert all(matches(Name.LFN, one) for one in (lfn("1"), lfn("1", "")))
