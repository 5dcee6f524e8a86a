"""The one reader of environment variables."""

from __future__ import annotations

from pathlib import Path

import environ

env = environ.Env()
BASE_DIR = Path(__file__).resolve().parents[2]
LAB = env.bool("WMS2_LAB", default=False)
