"""What the commands of `manage.py` share: who runs them and from where, and how a refusal is told."""

from __future__ import annotations

import getpass
import os
from pathlib import Path

from django.core.management.base import CommandError

from wms2_project.errors import InvalidInput, Wms2Error


def shell_actor() -> str:
    """Whoever typed the command: `./wms2` names them, because it runs us as the stack's owner."""
    return f"user:{os.environ.get('WMS2_PERSON') or getpass.getuser()}"


def path_of(name: str) -> Path:
    """The file a person named: `./wms2` changes the directory, and says from where it was called."""
    return Path(os.environ.get("WMS2_FROM", ""), name)


def refusal(error: Wms2Error, *, returncode: int = 1) -> CommandError:
    """The error as a person at a terminal reads it, with what is wrong in each field."""
    fields = error.fields if isinstance(error, InvalidInput) else {}
    told = "".join(f"\n  {field}: {message}" for field, message in fields.items())
    return CommandError(f"{error}{told}", returncode=returncode)
