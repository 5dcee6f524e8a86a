"""The clients and the pool of the integration tests, and the jobs of the sandbox tests."""

from __future__ import annotations

from tests.integration.condor.conftest import bench, pool_sites, schedd
from tests.integration.conftest import (
    _fresh_throttles,
    _patient_with_redis,
    api_as,
    console,
    operator,
    own_health,
    requestor,
    viewer,
)
from tests.job_world import tarball, world

__all__ = [
    "_fresh_throttles",
    "_patient_with_redis",
    "api_as",
    "bench",
    "console",
    "operator",
    "own_health",
    "pool_sites",
    "requestor",
    "schedd",
    "tarball",
    "viewer",
    "world",
]
