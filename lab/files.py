"""Small files written atomically, and secrets in them."""

from __future__ import annotations

import json
import os
import secrets
from pathlib import Path
from typing import Any

LOG_LIMIT_BYTES = 20_000_000


def write_atomically(path: Path, text: str, *, mode: int = 0o600) -> None:
    """Replace the file atomically and durably."""
    new = path.with_name(path.name + ".new")
    new.unlink(missing_ok=True)
    with open(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "w", encoding="utf-8") as out:
        out.write(text)
        out.flush()
        os.fsync(out.fileno())
    new.replace(path)
    directory = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(directory)  # sync the directory, so that the new name is durable
    finally:
        os.close(directory)


def read_json(path: Path) -> dict[str, Any]:
    """Return the object in the file; empty if the file is missing or damaged."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}


def keep_secret(path: Path, *, prefix: str = "") -> str:
    """Return the secret in the file, created at the first call."""
    if not path.exists():
        write_atomically(path, prefix + secrets.token_urlsafe(24))
    return path.read_text(encoding="utf-8").strip()


def rotate(path: Path) -> None:
    """Rename a large log. Call it only while no process has it open."""
    if path.exists() and path.stat().st_size > LOG_LIMIT_BYTES:
        path.replace(path.with_name(path.name + ".1"))
