"""Reads documents by the rules of this installation: which payloads its jobs can run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dags_app.services.payloads import payload_rules
from requests_app.documents import RequestSpec, read_document


def read_request(
    document: Mapping[str, Any],
    *,
    overrides: Mapping[str, Any] | None = None,
    defaults: Mapping[str, Any] | None = None,
    stored: bool = False,
) -> RequestSpec:
    """Return the request that a document describes, see `read_document`. Raises InvalidInput."""
    return read_document(
        document, overrides=overrides, defaults=defaults, stored=stored, payloads=payload_rules()
    )
