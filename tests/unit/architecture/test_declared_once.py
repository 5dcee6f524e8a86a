"""Facts that are declared in a table appear nowhere else in the product."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from sandbox import failure
from sandbox.exitcodes import CLASSES, Tag, exit_codes, has_tag, ran_out_of, tagged
from sandbox.limits import Resource

ROOT = Path(__file__).resolve().parents[3]
PRODUCT = (
    "chains_app", "cms", "condor", "console", "dags_app", "outputs_app", "requests_app", "rootfiles",
    "sandbox", "sites_app", "wms2_project",
)  # fmt: skip
SMALLEST_UNMISTAKABLE = 7000  # smaller numbers occur as ordinary limits
SOURCES = [
    path
    for package in PRODUCT
    for path in sorted((ROOT / package).rglob("*.py"))
    if "migrations" not in path.parts
]


def numbers(path: Path) -> set[int]:
    constants = [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Constant)]
    return {node.value for node in constants if type(node.value) is int}


def test_exit_codes_are_named_in_one_module_and_listed_in_the_table_only() -> None:
    known = {code for code in exit_codes() if code >= SMALLEST_UNMISTAKABLE}
    found = {str(path.relative_to(ROOT)): numbers(path) & known for path in SOURCES}

    assert {path for path, codes in found.items() if codes} == {"sandbox/failure.py"}


def test_every_code_that_a_job_raises_is_in_the_table() -> None:
    named = {name: value for name, value in vars(failure).items() if name.isupper() and type(value) is int}
    shell = {int(code) for code in re.findall(r"give_up (\d+)", (ROOT / "sandbox/run.sh").read_text())}

    assert len(named) > 20
    assert len(shell) == 2
    assert {*named.values(), *shell} <= exit_codes().keys()


def test_every_class_and_tag_of_the_table_is_declared_and_in_use() -> None:
    rows = exit_codes().values()

    assert {row.category for row in rows} == CLASSES
    assert {tag for row in rows for tag in row.tags} == set(Tag)


@pytest.mark.parametrize(
    ("tag", "codes"),
    [
        (Tag.MEMORY, {137, 8004, 8030, 8031, 50660, 50661}),
        (Tag.WALL_TIME, {50664, 71304}),
        (Tag.DISK, {50662}),
        (Tag.CORRUPT, {8016, 8021, 8022, 8034, 70452}),
        (Tag.OPEN, {64, 84, 85, 92, 8020, 8028}),
        (Tag.LOST, {8020, 8021, 8022, 60302, 60450, 99310}),
        (Tag.SET_UP, {74, 99400}),
        (Tag.PAYLOAD, {7000, 7001, 7002, 71104, 71105}),
    ],
)
def test_tags_select_the_codes_that_are_treated_alike(tag: Tag, codes: set[int]) -> None:
    assert tagged(tag) == codes


def test_unlisted_codes_are_vague_and_silent_kills_need_used_memory() -> None:
    assert has_tag(31337, Tag.VAGUE)
    assert has_tag(140, Tag.VAGUE), "an unlisted signal"
    assert ran_out_of(137, used_mb=500, requested_mb=1000) is None
    assert ran_out_of(137, used_mb=900, requested_mb=1000) is Resource.MEMORY
    assert ran_out_of(137, used_mb=0, requested_mb=0) is None


def test_shared_primitives_are_defined_in_the_sandbox_only() -> None:
    """Whole numbers, atomic writes, the elected site, site names and lumi ranges have one definition each."""
    homes = {
        "isinstance(value, int) and not isinstance(value, bool)": set(),
        "os.replace(": {"sandbox/atomic.py", "sandbox/evidence.py"},  # the latter only renames
        "elected_site.inc": {"sandbox/elect_site.py"},
        "T[0-3]_[A-Z]{2}_[A-Za-z0-9_]{1,60}": {"sandbox/names.py"},
        "\nLumiRange = ": {"sandbox/lumis.py"},
    }
    texts = {str(path.relative_to(ROOT)): path.read_text() for path in SOURCES}
    found = {mark: {path for path, text in texts.items() if mark in text} for mark in homes}

    assert found == homes
