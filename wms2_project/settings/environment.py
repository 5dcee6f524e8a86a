"""Reader of environment variables."""

from __future__ import annotations

import json
from typing import Any

import environ

env = environ.Env()


def parse_json(text: str) -> Any:
    """Return the value, or the text itself if it is not JSON: a startup check then says what is wrong."""
    try:
        return json.loads(text)
    except ValueError:
        return text


LAB = env.bool("WMS2_LAB", default=False)
