"""The pinned packages: complete, hashed, and free of any machine's settings."""

from __future__ import annotations

import re
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
PRODUCT = ("cms", "condor", "dags_app", "outputs_app", "requests_app", "sandbox", "sites_app", "wms2_project")
FILES = ["requirements.txt", "requirements-dev.txt"]
PIN = re.compile(r"^([A-Za-z0-9._-]+)==(\S+)", re.M)


def pins(name: str) -> dict[str, str]:
    return dict(PIN.findall((ROOT / name).read_text()))


def wanted(name: str) -> set[str]:
    lines = (ROOT / name).read_text().splitlines()
    return {re.split(r"[\[=<>!~; ]", line)[0].lower() for line in lines if re.match(r"[A-Za-z]", line)}


@pytest.mark.parametrize("name", FILES)
def test_every_pin_carries_a_hash(name: str) -> None:
    entries = re.split(r"^(?=[A-Za-z0-9])", (ROOT / name).read_text(), flags=re.M)

    assert len(entries) > 20
    assert [entry for entry in entries if entry.strip() and "--hash=sha256:" not in entry] == []


@pytest.mark.parametrize("name", FILES)
def test_no_index_host_is_written_down(name: str) -> None:
    text = (ROOT / name).read_text()

    assert not re.search(r"https?:|file:|--(extra-)?index-url|--find-links", text)


@pytest.mark.parametrize("name", FILES)
def test_every_wanted_package_is_pinned(name: str) -> None:
    missing = wanted(name.replace(".txt", ".in")) - {pin.lower() for pin in pins(name)}

    assert missing == set()


def test_test_packages_never_change_what_the_application_runs_on() -> None:
    runtime, dev = pins("requirements.txt"), pins("requirements-dev.txt")

    assert {name for name in runtime.keys() & dev.keys() if runtime[name] != dev[name]} == set()


def test_every_runtime_package_is_imported_or_named_in_the_code() -> None:
    modules: dict[str, set[str]] = {}
    for module, distributions in packages_distributions().items():
        for distribution in distributions:
            modules.setdefault(distribution.lower(), set()).add(module)
    code = "\n".join(
        path.read_text()
        for package in (*PRODUCT, "lab")
        for path in (ROOT / package).rglob("*.py")
        if "migrations" not in path.parts
    )
    unused = {
        name
        for name in wanted("requirements.in") & modules.keys()
        if not any(re.search(rf"^\s*(import|from) {one}\b|[\"']{one}\b", code, re.M) for one in modules[name])
    }

    assert unused == set()
