"""The pinned packages: complete, hashed, and free of any machine's settings."""

from __future__ import annotations

import re
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
FILES = ["requirements.txt", "requirements-lab.txt", "requirements-dev.txt"]
PRODUCT = [
    "chains_app", "cms", "condor", "console", "dags_app", "outputs_app", "requests_app", "rootfiles",
    "sandbox", "sites_app", "wms2_project",
]  # fmt: skip
TOOLS = {  # used without being imported: by a command, a setting or a type checker
    "gunicorn": "exec gunicorn ",
    "pytest-timeout": "\ntimeout =",
    "pytest-xdist": "--maxprocesses",
    "ruff": "tool.ruff",
    "mypy": "tool.mypy",
    "django-stubs": "mypy_django_plugin",
    "djangorestframework-stubs": "mypy_drf_plugin",
    "types-requests": "tool.mypy",
    "import-linter": "tool.importlinter",
    "pytest-django": "pytest.mark.django_db",
}
PIN = re.compile(r"^([A-Za-z0-9._-]+)==(\S+)", re.M)


def pins(name: str) -> dict[str, str]:
    return dict(PIN.findall((ROOT / name).read_text()))


def wanted(name: str) -> set[str]:
    lines = (ROOT / name).read_text().splitlines()
    named = (re.split(r"[\[=<>!~; ]", line)[0] for line in lines if re.match(r"[A-Za-z]", line))
    return {name.lower().replace(".", "-") for name in named}


@pytest.mark.parametrize("name", FILES)
def test_every_pin_carries_a_hash(name: str) -> None:
    entries = re.split(r"^(?=[A-Za-z0-9])", (ROOT / name).read_text(), flags=re.M)

    assert len(entries) > 10
    assert [entry for entry in entries if entry.strip() and "--hash=sha256:" not in entry] == []


@pytest.mark.parametrize("name", FILES)
def test_no_index_host_is_written_down(name: str) -> None:
    text = (ROOT / name).read_text()

    assert not re.search(r"https?:|file:|--(extra-)?index-url|--find-links", text)


@pytest.mark.parametrize("name", FILES)
def test_every_required_package_is_pinned(name: str) -> None:
    missing = wanted(name.replace(".txt", ".in")) - {pin.lower() for pin in pins(name)}

    assert missing == set()


@pytest.mark.parametrize("name", FILES[1:])
def test_further_packages_never_change_the_versions_of_the_application(name: str) -> None:
    runtime, further = pins("requirements.txt"), pins(name)

    assert {pin for pin in runtime.keys() & further.keys() if runtime[pin] != further[pin]} == set()


@pytest.mark.parametrize(
    ("name", "places"),
    [
        ("requirements.in", [*PRODUCT, "docker-compose.yml"]),
        ("requirements-lab.in", ["lab", "benchmarks", "cli"]),
        ("requirements-dev.in", ["tests", "lab", "pyproject.toml"]),
    ],
)
def test_every_required_package_is_used(name: str, places: list[str]) -> None:
    text = "\n".join(path.read_text() for place in places for path in texts(ROOT / place))
    modules = modules_by_package()

    assert {package for package in wanted(name) if not is_used(package, modules, text)} == set()


def texts(place: Path) -> list[Path]:
    own = Path(__file__).resolve()
    return [place] if place.is_file() else [path for path in place.rglob("*.py") if path != own]


def modules_by_package() -> dict[str, set[str]]:
    """Return the top-level modules each installed package brings."""
    found: dict[str, set[str]] = {}
    for module, packages in packages_distributions().items():
        for package in packages:
            found.setdefault(re.sub(r"[._]", "-", package.lower()), set()).add(module)
    return found


def is_used(package: str, modules: dict[str, set[str]], text: str) -> bool:
    """Return whether the text imports the package, names one of its modules in quotes, or runs its tool."""
    if package in TOOLS:
        return TOOLS[package] in text
    found = "|".join(sorted(modules.get(package, {package.replace("-", "_")})))
    return bool(re.search(rf"^\s*(?:import|from) (?:{found})\b|[\"'](?:{found})[.\"']", text, re.M))
