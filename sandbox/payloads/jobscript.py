"""The payload kind `jobscript`: a program of the request that asks WMS2 for its files, in pull mode only."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from sandbox.failure import BAD_CONFIGURATION, JobFailure
from sandbox.payloads.base import Kind, Window
from sandbox.program import parse_environment

if TYPE_CHECKING:
    from sandbox.context import Context, Tally
    from sandbox.manifest import Job

MAX_BYTES = 64 * 1024


def read_config(payload: Mapping[str, Any]) -> str:
    """Return the text of the jobscript. Raises JobFailure if it names no interpreter or is too long."""
    text = payload.get("jobscript")
    if not isinstance(text, str) or not text.startswith("#!/") or "\0" in text:
        raise _refused(text, "a script that begins with #! and its interpreter")
    if len(text.encode("utf-8", "replace")) > MAX_BYTES:
        raise _refused(text, f"a script of at most {MAX_BYTES} bytes")
    parse_environment(payload)
    return text


def run_window(context: Context, job: Job, tally: Tally, config: str, part: int) -> Window:
    """Refuse: a jobscript is not run for planned files."""
    raise JobFailure(BAD_CONFIGURATION, "payload: jobscript: needs allocation pull")


def _refused(value: object, expected: str) -> JobFailure:
    return JobFailure(BAD_CONFIGURATION, f"payload: jobscript: {value!r:.80} is not {expected}")


KIND = Kind(
    name="jobscript", section="jobscript", merge_tool="copy", read_config=read_config, run_window=run_window
)
