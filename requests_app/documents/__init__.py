"""Request documents: reads every accepted format into one typed and normalised RequestSpec."""

from __future__ import annotations

from requests_app.documents.limits import check_size
from requests_app.documents.naming import compose_name, fresh_name
from requests_app.documents.outputs import next_version
from requests_app.documents.reader import read_document
from requests_app.documents.spec import (
    Allocation,
    Backend,
    LumiMask,
    OutputSpec,
    RequestSpec,
    SplittingParams,
)

__all__ = [
    "Allocation",
    "Backend",
    "LumiMask",
    "OutputSpec",
    "RequestSpec",
    "SplittingParams",
    "check_size",
    "compose_name",
    "fresh_name",
    "next_version",
    "read_document",
]
