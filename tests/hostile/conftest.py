"""The clients of the integration tests."""

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

__all__ = [
    "_fresh_throttles",
    "_patient_with_redis",
    "api_as",
    "console",
    "operator",
    "requestor",
    "viewer",
]
