"""HTCondor's event log about one job: where it ran, why it was held or removed, its memory."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

MAX_BYTES = 16 * 1024 * 1024  # some thousand jobs; every POST of the group reads it
_SITE = re.compile(r'^\tGLIDEIN_CMSSite = "([^"\n]*)"$', re.MULTILINE)
_MEMORY = re.compile(
    r"^\t(?:(\d{1,9})  -  MemoryUsage of job|   Memory \(MB\) +: +(\d{1,9}) +\d)", re.MULTILINE
)
_HOLD_CODE = re.compile(r"^\tCode (\d{1,6}) Subcode", re.MULTILINE)
_END = b"\n..."


@dataclass(frozen=True)
class JobEvents:
    """Events of a job; '', 0 and None = not in the log. `hold_code` is HTCondor's HoldReasonCode."""

    site: str = ""
    hold_reason: str = ""
    hold_code: int = 0
    removal_reason: str = ""
    memory_mb: int | None = None


def read_job_events(path: Path, job_id: str) -> JobEvents:
    """Return the latest events of the job `<cluster>.<proc>` in the tail of a log; empty without a log."""
    cluster = job_id.split(".", 1)[0]
    if not (cluster.isascii() and cluster.isdigit() and len(cluster) < 12):
        return JobEvents()
    try:
        with open(path, "rb") as handle:
            handle.seek(max(0, path.stat().st_size - MAX_BYTES))
            data = handle.read(MAX_BYTES)
    except OSError:
        return JobEvents()
    found = JobEvents()
    for kind, body in _events(data, int(cluster)):
        found = _updated(found, kind, body)
    return found


def _events(data: bytes, cluster: int) -> Iterator[tuple[str, str]]:
    key = b" (%03d." % cluster
    position = data.find(key)
    while position >= 0:
        start = position - 3
        end = data.find(_END, position)
        if end < 0:
            return  # the last event is still being written
        kind = data[max(start, 0) : position]
        if kind.isdigit() and (start == 0 or data[start - 1 : start] == b"\n"):
            yield kind.decode("ascii"), data[position:end].decode("utf-8", "replace")
        position = data.find(key, end)


def _updated(found: JobEvents, kind: str, body: str) -> JobEvents:
    detail = body.split("\n", 2)[1].strip()[:500] if "\n" in body else ""
    if kind == "001":
        site = _SITE.search(body)
        return JobEvents(site=site.group(1) if site else "", memory_mb=found.memory_mb)
    if kind == "012":
        code = _HOLD_CODE.search(body)
        reason = detail or "held without a reason"
        return replace(found, hold_reason=reason, hold_code=int(code.group(1)) if code else 0)
    if kind == "013":
        return replace(found, hold_reason="", hold_code=0)
    if kind == "009":
        return replace(found, removal_reason=detail)
    if kind in ("005", "006"):
        usage = _MEMORY.search(body)
        value = usage and (usage.group(1) or usage.group(2))
        return replace(found, memory_mb=int(value)) if value else found
    return found
