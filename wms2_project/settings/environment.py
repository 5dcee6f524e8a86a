"""Reader of environment variables."""

from __future__ import annotations

import environ

env = environ.Env()
LAB = env.bool("WMS2_LAB", default=False)
