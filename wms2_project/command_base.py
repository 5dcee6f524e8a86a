"""Shared parts of the `manage.py` commands."""

from __future__ import annotations

import getpass
import os
from pathlib import Path

from django.core.management.base import CommandError

from wms2_project.errors import InvalidInput, Wms2Error


def shell_actor() -> str:
    """Return the actor of a command: the caller of `./wms2`, which runs commands as the stack's owner."""
    return f"user:{os.environ.get('WMS2_PERSON') or getpass.getuser()}"


def path_of(name: str) -> Path:
    """Return a path given on the command line, relative to the directory `./wms2` was called in."""
    return Path(os.environ.get("WMS2_FROM", ""), name)


def refusal(error: Wms2Error, *, returncode: int = 1) -> CommandError:
    """Return the error as a CommandError that lists the fields."""
    fields = error.fields if isinstance(error, InvalidInput) else {}
    details = "".join(f"\n  {field}: {message}" for field, message in fields.items())
    return CommandError(f"{error}{details}", returncode=returncode)
