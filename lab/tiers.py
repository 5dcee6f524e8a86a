"""The tiers of the tests, cheapest first. Also a pytest plugin that keeps them in this order."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pytest

UNIT = "unit"
ORDER = (UNIT, "integration", "contract", "faults", "e2e")


def rank(tier: str) -> tuple[int, str]:
    """Tiers nobody ranked come last, by name."""
    return (ORDER.index(tier) if tier in ORDER else len(ORDER), tier)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """pytest-django moves tests that use the database to the front; unit tests should still fail first."""
    tests = config.rootpath / "tests"
    items.sort(
        key=lambda item: (
            rank(item.path.relative_to(tests).parts[0]) if tests in item.path.parents else rank("")
        )
    )
