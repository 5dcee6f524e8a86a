"""Must every node of the DAG fail like this one? Only what is shown by files on the submit host says so.

An error that merely looks general stops its own node; the others are left to find out for themselves.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from pathlib import Path

from sandbox.classify import REMOVED
from sandbox.failure import (
    BAD_CONFIGURATION,
    FILE_OPEN,
    MANIFEST_MISSING,
    MANIFEST_UNUSABLE,
    SANDBOX_BROKEN,
    JobFailure,
)
from sandbox.jsonfile import ManifestError
from sandbox.postrecord import SUCCESS, last_records

SANDBOX = Path("../sandbox.tar.gz")
NEEDED_FILES = (Path("../run.sh"), SANDBOX, Path("../back"), Path("jobs.json"))
CONFIGURATION_CODES = frozenset({7000, 7001, BAD_CONFIGURATION, MANIFEST_MISSING, MANIFEST_UNUSABLE})
OPEN_CODES = frozenset({64, 84, 85, 92, FILE_OPEN, 8028})
# So many different files, at so many sites, and nothing ever read: then the dataset is gone.
MIN_FILES, MIN_SITES = 3, 2
MAX_GROUPS = 50
MAX_SANDBOX_BYTES = 256 * 1024 * 1024


def find_proof(code: int, *, site: str, bad_inputs: Sequence[str]) -> str:
    """What shows that the failure affects every node; '' if nothing does."""
    if code in (SANDBOX_BROKEN, REMOVED):
        return _broken_sandbox()
    if code in CONFIGURATION_CODES:
        return _broken_configuration()
    if code in OPEN_CODES:
        return _dataset_gone(site, bad_inputs)
    return ""


def _broken_sandbox() -> str:
    for path in NEEDED_FILES:
        if not path.exists():
            return f"{path.name}, without which no job starts, is not on the submit host"
    unpacker = zlib.decompressobj(wbits=31)
    size = 0
    try:
        with open(SANDBOX, "rb") as handle:
            while (chunk := handle.read(1 << 20)) and size < MAX_SANDBOX_BYTES:
                size += len(unpacker.decompress(chunk))
    except (OSError, zlib.error) as error:
        return f"{SANDBOX.name}, which every job unpacks, is broken on the submit host: {error}"
    if not unpacker.eof:
        return f"{SANDBOX.name}, which every job unpacks, is cut off on the submit host"
    return ""


def _broken_configuration() -> str:
    from sandbox.command import check_payload
    from sandbox.manifest import read_jobs

    try:
        check_payload(read_jobs(Path("jobs.json")).payload)
    except ManifestError as error:
        return f"what every job of the group reads is broken on the submit host: {error}"
    except JobFailure as failure:
        return f"the payload configuration, the same for every job, is refused: {failure.message}"
    return ""


def _dataset_gone(site: str, bad_inputs: Sequence[str]) -> str:
    files, sites = set(bad_inputs), {site}
    for group in sorted(Path("..").glob("mg_*"))[:MAX_GROUPS]:
        for record in last_records(group).values():
            if record.category == SUCCESS:
                return ""
            if record.exit_code in OPEN_CODES:
                files.update(record.bad_input_files)
                sites.add(record.site)
    sites.discard("")
    if len(files) < MIN_FILES or len(sites) < MIN_SITES:
        return ""
    told = f"{len(files)} input files could not be opened at {', '.join(sorted(sites))}, and none was read"
    return f"the input dataset is gone: {told}; the first is {min(files)}"
