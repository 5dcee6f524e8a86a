"""The interface of a payload kind: what the jobs of a request run.

A kind is one module with a `KIND`, listed in `sandbox.payloads.KINDS` or in the `KINDS` of a plugin package.
Its configuration is the request's `payload_config`, the same for every job. The wrapper calls, in each job:

1. `read_config(payload)`, in every role and also when a document is validated: no I/O, raises JobFailure
   BAD_CONFIGURATION with `payload: <field>: <value> is not <what is expected>`.
2. `start(context, config)`, in every role, before any work.
3. `run_window(context, job, tally, config, part)` in processing jobs: once, or once for each window of a
   pilot, `part` counting from 0. It writes one file per output dataset into `context.work` and returns them.
   What it has read so far goes into `tally` as it goes on, so that a report can be written whenever it stops.

The files of several windows, and of the jobs of a group, are joined by the merge tool (`sandbox.merge_tools`)
that `payload_config.merge.tool` names, else by the kind's `merge_tool`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sandbox.filefacts import FileFacts
from sandbox.lumis import Lumis

if TYPE_CHECKING:
    from sandbox.context import Context, Tally
    from sandbox.manifest import Job


@dataclass(frozen=True)
class Window:
    """The finished part of a job's events: one local file per output dataset, in the order of the plan.

    `lumis` are those processed, also where every event of one was filtered out.
    """

    events_read: int
    lumis: Lumis
    parts: tuple[tuple[Path, FileFacts], ...]

    @property
    def size_bytes(self) -> int:
        return sum(facts.size_bytes for _, facts in self.parts)


def _no_start(_context: Context, _config: Any) -> None:
    """Do nothing before the work."""


@dataclass(frozen=True)
class Kind:
    """One payload kind. `section`: a payload_config with this key and no `kind` is of this kind."""

    name: str
    merge_tool: str
    read_config: Callable[[Mapping[str, Any]], Any]
    run_window: Callable[[Context, Job, Tally, Any, int], Window]
    section: str = ""
    start: Callable[[Context, Any], None] = _no_start
