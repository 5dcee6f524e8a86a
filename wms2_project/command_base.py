"""Helpers of management commands: the calling person, paths, and error output."""

from __future__ import annotations

import getpass
import os
from pathlib import Path

from django.core.management.base import CommandError

from wms2_project.errors import InvalidInput, Wms2Error


def shell_actor() -> str:
    """Return the actor of a command. `./wms2` passes the person, because it runs as the stack's owner."""
    return f"user:{os.environ.get('WMS2_PERSON') or getpass.getuser()}"


def path_of(name: str | Path) -> Path:
    """Return the path of a file argument. `./wms2` changes the directory and passes the caller's."""
    return Path(os.environ.get("WMS2_FROM", ""), name)


def refusal(error: Wms2Error, *, returncode: int = 1) -> CommandError:
    """Return the error for a terminal, with one line per field."""
    fields = error.fields if isinstance(error, InvalidInput) else {}
    lines = "".join(f"\n  {field}: {message}" for field, message in fields.items())
    return CommandError(f"{error}{lines}", returncode=returncode)
