"""Runs a jobscript: a program of the request that asks for files and lists those it processed."""

from __future__ import annotations

import json
import os
import stat
import sys
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from sandbox.context import Context
from sandbox.failure import EXECUTABLE_MISSING, OUTPUT_MISSING, JobFailure
from sandbox.filefacts import checksum
from sandbox.jsonfile import Fields, ManifestError, read_json
from sandbox.lumis import Lumis
from sandbox.program import failed_with
from sandbox.pull.getfile import SETTINGS, read_allocated
from sandbox.scratch import regular_file
from sandbox.tree import Payload

PROGRAMS = ("wms2-get-file", "wms2-allocated-files", "justin-get-file", "justin-allocated-files")
DIDS = ("processed-dids.txt", "justin-processed-dids.txt")
PFNS = ("processed-pfns.txt", "justin-processed-pfns.txt")
MAX_LIST_BYTES = 10 * 1024 * 1024


@dataclass(frozen=True)
class Made:
    """An output file of a job; events None = not known."""

    path: Path
    size_bytes: int
    adler32: str
    events: int | None = None
    lumis: Lumis = field(default_factory=dict)

    @property
    def name(self) -> str:
        return self.path.name


@dataclass(frozen=True)
class Result:
    """Processed files and outputs of a job."""

    processed: list[str]
    outputs: list[Made]


def run_jobscript(
    context: Context, text: str, *, settings: Mapping[str, Any], environment: Mapping[str, str],
    patterns: Sequence[str],
) -> Result:  # fmt: skip
    """Run the jobscript in an empty directory. Raises JobFailure if it fails."""
    directory, programs = context.work / "job", context.work / "bin"
    directory.mkdir()
    _write_programs(programs, context.scratch)
    (programs / SETTINGS).write_text(json.dumps(dict(settings)), encoding="utf-8")
    script = context.work / "jobscript"
    script.write_text(text, encoding="utf-8")
    script.chmod(0o700)
    variables = {
        **os.environ,
        **environment,
        "PATH": f"{programs}:{os.environ.get('PATH', '/usr/bin:/bin')}",
        "WMS2_FILES": str(programs),
        "WMS2_PATH": str(programs),
        "JUSTIN_PATH": str(programs),
    }
    try:
        status = context.tree.run(Payload([str(script)], directory, variables), context.deadline)
    except OSError as error:
        raise JobFailure(
            EXECUTABLE_MISSING, f"jobscript: {error.strerror}; does it begin with #!?"
        ) from error
    if status is None:
        raise context.out_of_time("the jobscript")
    if status:
        raise failed_with("the jobscript", status, "it exits with 0 if it succeeds")
    processed = read_processed(directory, read_allocated(programs))
    return Result(processed, find_outputs(directory, patterns) if processed else [])


def _write_programs(directory: Path, scratch: Path) -> None:
    """Write the programs for the jobscript: they start this package, which lies in the job's directory."""
    directory.mkdir()
    start = (
        f"#!{sys.executable} -IB\n"
        "import sys\n"
        f"sys.path.insert(0, {str(scratch)!r})\n"
        "from sandbox.pull.getfile import main\n"
        "sys.exit(main(sys.argv))\n"
    )
    for name in PROGRAMS:
        path = directory / name
        path.write_text(start, encoding="utf-8")
        path.chmod(0o755)


def read_processed(directory: Path, allocated: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return the files that the lists name, by DID or PFN. Others are reported."""
    by_name = {}
    for file in allocated:
        by_name[file["lfn"]] = by_name[file["pfn"] or file["lfn"]] = file["lfn"]
    found: dict[str, None] = {}
    for name in (*DIDS, *PFNS):
        for line in _lines(directory / name):
            word = line.strip()
            did = by_name.get(word) or by_name.get(word.partition(":")[2] if not word.startswith("/") else "")
            if did is not None:
                found[did] = None
            elif word:
                sys.stderr.write(f"{name}: {word:.200} was not lent to this job and is ignored\n")
    return list(found)


def _lines(path: Path) -> list[str]:
    with suppress(OSError):
        if stat.S_ISREG(os.lstat(path).st_mode):
            with open(path, "rb") as handle:
                return handle.read(MAX_LIST_BYTES).decode("utf-8", "replace").splitlines()
    return []


def find_outputs(directory: Path, patterns: Sequence[str]) -> list[Made]:
    """Return the files of the directory that match a pattern, with what `<file>.json` says about them."""
    names = sorted(entry.name for entry in os.scandir(directory))
    lists = {*DIDS, *PFNS}
    wanted = [name for name in names if name not in lists and any(fnmatchcase(name, one) for one in patterns)]
    described = {f"{name}.json" for name in wanted} & set(names)
    return [_made(directory / name) for name in wanted if name not in described]


def _made(path: Path) -> Made:
    size_bytes, adler32 = checksum(regular_file(path))
    facts = path.with_name(f"{path.name}.json")
    if not os.path.lexists(facts):
        return Made(path, size_bytes, adler32)
    try:
        fields = Fields(read_json(regular_file(facts), claim=True), facts.name)
        lumis = fields.lumis("lumis") if "lumis" in fields.raw else {}
        return Made(path, size_bytes, adler32, fields.integer("events"), lumis)
    except ManifestError as error:
        raise JobFailure(OUTPUT_MISSING, f"jobscript: {facts.name} is not usable: {error}") from error
