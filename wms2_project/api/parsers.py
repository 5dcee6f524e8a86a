"""JSON bodies, bounded in size and depth, and free of values PostgreSQL could not store."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import IO, Any

from django.conf import settings
from rest_framework.exceptions import ParseError
from rest_framework.parsers import JSONParser

from wms2_project.api.errors import BodyTooLarge


class BoundedJSONParser(JSONParser):
    """Reads at most DATA_UPLOAD_MAX_MEMORY_SIZE bytes. DRF's own parser has no limit."""

    def parse(
        self, stream: IO[Any], media_type: str | None = None, parser_context: Mapping[str, Any] | None = None
    ) -> Any:
        """Return the parsed body, or raise ParseError with the cause."""
        limit = settings.DATA_UPLOAD_MAX_MEMORY_SIZE
        raw = stream.read(limit + 1)
        if len(raw) > limit:
            raise BodyTooLarge
        try:
            value = json.loads(raw.decode("utf-8"), parse_constant=_refuse_constant)
            _check_storable(value)
        except RecursionError as error:
            raise ParseError("The JSON is nested too deeply.") from error
        except ValueError as error:
            raise ParseError(f"The body is not acceptable JSON: {error}.") from error
        return value


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not a JSON number")


def _check_storable(value: Any) -> None:
    """Raise ValueError for JSON values PostgreSQL cannot store: NUL, half surrogate pairs, infinities."""
    if isinstance(value, str):
        if "\x00" in value:
            raise ValueError("a string contains the NUL character")
        value.encode("utf-8")  # UnicodeEncodeError is a ValueError
    elif isinstance(value, float) and not math.isfinite(value):
        raise ValueError("a number is too large")
    elif isinstance(value, dict):
        for key, item in value.items():
            _check_storable(key)
            _check_storable(item)
    elif isinstance(value, list):
        for item in value:
            _check_storable(item)
