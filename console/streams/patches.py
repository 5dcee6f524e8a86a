"""Differences between versions of a fragment, by lines: a change of one figure costs one line per page."""

from __future__ import annotations

from difflib import SequenceMatcher

Edit = tuple[int, int, list[str]]  # lines from, to (exclusive) of the version before, and what replaces them


def build_edits(before: str, after: str) -> list[Edit]:
    """Return the edits that turn one text into the other, in the order of their lines."""
    old, new = before.split("\n"), after.split("\n")
    matcher = SequenceMatcher(None, old, new, autojunk=False)
    return [
        (start, end, new[first:last])
        for kind, start, end, first, last in matcher.get_opcodes()
        if kind != "equal"
    ]
