"""Text helpers for messages. Pure: every layer may import this module."""

from __future__ import annotations

from datetime import datetime, timedelta


def counted(number: int, noun: str) -> str:
    """Format a count with its noun: 1 group, 1,200 groups."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def size_of(size_bytes: int | None) -> str:
    """Return a size in decimal units."""
    size = float(size_bytes or 0)
    for unit in ("B", "kB", "MB", "GB", "TB"):
        if size < 1000:
            return f"{size:.{0 if unit == 'B' else 1}f}\N{NO-BREAK SPACE}{unit}"
        size /= 1000
    return f"{size:.1f}\N{NO-BREAK SPACE}PB"


def age_of(since: datetime | None, *, now: datetime) -> str:
    """Return the age in the largest unit of which there are at least two."""
    if since is None:
        return "–"
    seconds = max(0, int((now - since) / timedelta(seconds=1)))
    for unit, length in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= 2 * length:
            return f"{seconds // length}\N{NO-BREAK SPACE}{unit}"
    return f"{seconds}\N{NO-BREAK SPACE}s"
