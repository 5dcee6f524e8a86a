"""Errors of the client, each with the exit code of the process."""

from __future__ import annotations

FAILED, USAGE, UNREACHABLE = 1, 2, 3


class CliError(Exception):
    """A message for the terminal: what is wrong, and how to fix it."""

    def __init__(self, message: str, *, cure: str = "", exit_code: int = FAILED) -> None:
        super().__init__(f"{message}\n{cure}" if cure else message)
        self.exit_code = exit_code
