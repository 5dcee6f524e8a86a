"""What the commands of `manage.py` share: who runs them."""

from __future__ import annotations

import getpass
import os


def shell_actor() -> str:
    """Whoever typed the command: `./wms2` names them, because it runs us as the stack's owner."""
    return f"user:{os.environ.get('WMS2_PERSON') or getpass.getuser()}"
