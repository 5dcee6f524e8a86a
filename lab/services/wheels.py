"""Servers installed as Python packages."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

from lab.errors import LabError


def wheel_directory(package: str, *, setting: str) -> Path:
    """Return the directory of a package without importing it, which may start servers."""
    spec = importlib.util.find_spec(package)
    if spec is None or spec.origin is None:
        raise LabError(
            f"no server was found on PATH and {sys.prefix} has no package {package}: "
            f"install the server, or set {setting} to a running one"
        )
    return Path(spec.origin).parent
