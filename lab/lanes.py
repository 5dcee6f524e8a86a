"""Lanes of the whole test run: groups of tests that run concurrently on one stack.

Tests in one lane run one after the other; lanes share only services that isolate them. Tests that disturb
others have a stack of their own. Most tests wait for jobs, so that lanes take little more time than the
longest one.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

from lab.tiers import WITHOUT_SERVICES

LANE = "WMS2_TEST_LANE"  # a test database of its own is named after it


@dataclass(frozen=True, slots=True)
class Lane:
    """Paths that are tested one after the other."""

    name: str
    paths: tuple[str, ...]
    left_out: tuple[str, ...] = ()
    redis: int | None = None  # a Redis database of its own; the benchmarks empty number 3

    def arguments(self) -> list[str]:
        """Return the arguments of pytest."""
        return [*self.paths, *(f"--ignore={path}" for path in self.left_out)]

    def environment(self, given: Mapping[str, str]) -> dict[str, str]:
        """Return the environment that isolates the lane."""
        own = {LANE: self.name}
        if self.redis is not None:
            own["REDIS_URL"] = urlunsplit(urlsplit(given["REDIS_URL"])._replace(path=f"/{self.redis}"))
        return own


# Tests that freeze, kill or empty services that other tests use, or block their transfers.
DISTURBING = (
    "tests/e2e/test_maintenance.py",
    "tests/e2e/test_outputs.py",
    "tests/e2e/test_restore.py",
    "tests/e2e/test_storage_faults.py",
    "tests/e2e/test_survival.py",
)
# Tests of jobs that use the sites' storage servers; other tests use plain directories, which is cheaper.
ON_STORAGE_SERVERS = ("tests/e2e/test_storage_faults.py",)
_ON_THE_POOL = (
    "tests/integration/condor",
    "tests/integration/admin/test_operation_calls.py",
    "tests/integration/api/test_fuzzing.py",
    "tests/integration/auth/test_audited_writes.py",
    "tests/faults",
)
_STEERED = tuple(f"tests/e2e/test_{name}.py" for name in ("control", "failures_jobs", "failures_rounds"))
_EXECUTION = ("tests/integration/execution",)
_REQUESTS = ("tests/e2e",)
_CHAINS = tuple(f"tests/integration/{name}" for name in ("chains", "intake", "pull"))
_OUTSIDE = ("tests/contract", "tests/hostile", "tests/image")
_BROWSER = ("tests/browser",)


def lanes(root: Path) -> list[Lane]:
    """Return lanes with every test that needs services, except the disturbing ones, once."""
    taken = (*_ON_THE_POOL, *_EXECUTION, *_REQUESTS, *_CHAINS, *_OUTSIDE, *_BROWSER)
    tiers = sorted(path.name for path in (root / "tests").iterdir() if any(path.rglob("test_*.py")))
    rest = tuple(
        f"tests/{tier}" for tier in tiers if tier not in WITHOUT_SERVICES and f"tests/{tier}" not in taken
    )
    return [
        Lane("requests", _REQUESTS, left_out=(*DISTURBING, *_STEERED)),
        Lane("steering", (*_EXECUTION, *_STEERED)),
        Lane("pool", _ON_THE_POOL, left_out=DISTURBING),
        Lane("outside", _OUTSIDE, redis=2),
        Lane("chains", _CHAINS, redis=5),
        Lane("browser", _BROWSER, redis=4),
        Lane("database", rest, left_out=taken, redis=1),
    ]


def lane_name() -> str:
    """Return the lane of this process; empty outside the whole run."""
    return os.environ.get(LANE, "")
