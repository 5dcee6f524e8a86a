"""Tiers of the tests, cheapest first, and a pytest plugin that keeps this order or shuffles each tier."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from random import Random, SystemRandom

import pytest

RANDOM_ORDER = "--random-order"

UNIT = "unit"
JOBS = "jobs"
WITHOUT_SERVICES = (UNIT, JOBS)
ORDER = (*WITHOUT_SERVICES, "integration", "hostile", "contract", "faults", "browser", "e2e", "image")


def rank(tier: str) -> tuple[int, str]:
    """Return the sort key of a tier; unknown tiers come last, by name."""
    return (ORDER.index(tier) if tier in ORDER else len(ORDER), tier)


def with_seed(arguments: Sequence[str]) -> list[str]:
    """Add a seed to a bare --random-order: the same for all lanes."""
    seed = f"{RANDOM_ORDER}={SystemRandom().randrange(10**6)}"
    return [seed if argument == RANDOM_ORDER else argument for argument in arguments]


def pytest_addoption(parser: pytest.Parser) -> None:
    description = "shuffle the modules of each tier and the tests of each module; a seed repeats an order"
    parser.addoption(RANDOM_ORDER, metavar="SEED", type=int, help=description)


def pytest_configure(config: pytest.Config) -> None:
    seed = config.getoption(RANDOM_ORDER)
    if seed is not None:
        config.pluginmanager.register(Shuffle(seed))


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Sort the tests by tier, after pytest-django moved tests with a database to the front."""
    tests = config.rootpath / "tests"
    items.sort(
        key=lambda item: (
            rank(item.path.relative_to(tests).parts[0]) if tests in item.path.parents else rank("")
        )
    )


class Shuffle:
    """Shuffles the modules and their tests, before pytest groups them by fixtures."""

    def __init__(self, seed: int) -> None:
        self.seed = seed

    def pytest_report_header(self) -> str:
        return f"random order: {RANDOM_ORDER}={self.seed}"

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        random = Random(self.seed)  # noqa: S311 - an order, not a secret
        modules: dict[Path, list[pytest.Item]] = {}
        for item in items:
            modules.setdefault(item.path, []).append(item)
        order = list(modules.values())
        random.shuffle(order)
        for module in order:
            random.shuffle(module)
        items[:] = [item for module in order for item in module]
