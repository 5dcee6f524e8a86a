"""`<node>.post.<attempt>.json`: the POST script's conclusion about one attempt, read by WMS2."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from sandbox import names
from sandbox.exitcodes import CLASSES
from sandbox.failure import PAYLOAD, SOURCES
from sandbox.jsonfile import Fields, ManifestError

SUCCESS = "success"
LOG_TAIL_CHARACTERS = 16_384
CATEGORIES = CLASSES | {SUCCESS}
_FILE = re.compile(r"([A-Za-z][A-Za-z0-9_]{0,63})\.post\.([0-9]{1,6})\.json", re.ASCII)


@dataclass(frozen=True)
class PostRecord:
    """The part of a record that recovery uses.

    '' = unknown: `site` if the job never ran, `step` without a report of the failed step, `hold_reason` of
    a job that was not held. `proof` shows that an error affects every node (43), `limit` is what ended the
    retries, `source` who set the exit code. `memory_mb` was used, `memory_asked_mb` requested; 0 = unknown.
    """

    node_name: str
    timestamp: str
    attempt: int
    max_retries: int
    final: bool
    exit_code: int
    site: str
    wall_time_sec: float
    memory_mb: int
    category: str
    retryable: bool
    action: str
    reason: str
    bad_input_files: tuple[str, ...]
    error_message: str
    log_tail: str
    step: str = ""
    hold_reason: str = ""
    proof: str = ""
    limit: str = ""
    memory_asked_mb: int = 0
    source: str = PAYLOAD
    job_id: str = ""
    cpu_time_sec: float = 0.0
    removal_reason: str = ""

    @property
    def removed_by_operator(self) -> bool:
        """Whether a person removed the job with condor_rm. WMS2 and the pool give other reasons."""
        return self.removal_reason.startswith("via condor_rm")


def record_name(node: str, attempt: int) -> str:
    return f"{node}.post.{attempt}.json"


def read_record(path: Path) -> PostRecord:
    """Read a record; raise ManifestError naming what is wrong."""
    fields = Fields.of_file(path)
    job, verdict, memory = fields.child("job"), fields.child("classification"), fields.optional("memory")
    category = verdict.text("category")
    if category not in CATEGORIES:
        verdict.refuse("category", " or ".join(sorted(CATEGORIES)))
    return PostRecord(
        node_name=fields.name("node_name", names.NODE, "a node name"),
        timestamp=fields.text("timestamp"),
        attempt=fields.integer("attempt"),
        max_retries=fields.integer("max_retries"),
        final=fields.flag("final"),
        exit_code=job.integer("exit_code"),
        site=job.name("site", names.SITE, "a site name", empty=True),
        wall_time_sec=job.number("wall_time_sec"),
        memory_mb=job.integer("memory_mb"),
        category=category,
        retryable=verdict.flag("retryable"),
        action=verdict.text("action"),
        reason=verdict.text("reason"),
        bad_input_files=verdict.name_list("bad_input_files", names.LFN, "LFN"),
        error_message=fields.child("cmssw").text("error_message"),
        log_tail=fields.text("log_tail", limit=LOG_TAIL_CHARACTERS),
        step=verdict.text_or_empty("step"),
        hold_reason=job.text_or_empty("hold_reason"),
        removal_reason=job.text_or_empty("removal_reason"),
        proof=verdict.text_or_empty("proof"),
        limit=verdict.text_or_empty("limit"),
        memory_asked_mb=memory.integer("requested_mb") if memory else 0,
        source=job.raw["source"] if job.raw.get("source") in SOURCES else PAYLOAD,
        job_id=job.text_or_empty("job_id"),
        cpu_time_sec=job.number("cpu_time_sec") if "cpu_time_sec" in job.raw else 0.0,
    )


def last_records(group_directory: Path) -> dict[str, PostRecord]:
    """Return the record of each node's last attempt; of the one before if it cannot be read."""
    return {record.node_name: record for record in read_records(group_directory)}


def read_records(group_directory: Path, node: str = "*") -> Iterator[PostRecord]:
    """Yield the readable records of one node, or of all, in the order of attempts."""
    files = []
    for path in group_directory.glob(f"{node}.post.*.json"):
        found = _FILE.fullmatch(path.name)
        if found:
            files.append((found.group(1), int(found.group(2)), path))
    for _, _, path in sorted(files):
        with suppress(ManifestError):
            yield read_record(path)
