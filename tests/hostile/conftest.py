"""The clients of the integration tests and the jobs of the sandbox tests."""

from __future__ import annotations

from tests.integration.conftest import (
    _fresh_throttles,
    _patient_with_redis,
    api_as,
    console,
    operator,
    requestor,
    viewer,
)
from tests.unit.sandbox.conftest import tarball, world

__all__ = [
    "_fresh_throttles",
    "_patient_with_redis",
    "api_as",
    "console",
    "operator",
    "requestor",
    "tarball",
    "viewer",
    "world",
]
