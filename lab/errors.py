"""The error of the lab."""

from __future__ import annotations


class LabError(Exception):
    """The lab cannot continue. One sentence: what is wrong, where the log is, and the cure."""

    def __init__(self, message: str, *, exit_code: int = 1) -> None:
        super().__init__(message)
        self.exit_code = exit_code
