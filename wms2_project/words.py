"""Text helpers for messages. Pure: every layer may import this module."""

from __future__ import annotations


def counted(number: int, noun: str) -> str:
    """Format a count with its noun: 1 group, 1,200 groups."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
