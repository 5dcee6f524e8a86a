"""Proof that every node of the DAG will fail like this one, from files on the submit host only.

An error that only seems general stops its own node; the others continue.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Sequence
from pathlib import Path

from sandbox.elect_site import elected_site
from sandbox.evidence import INPUT_FOUND
from sandbox.exitcodes import Tag, has_tag, row_of
from sandbox.failure import JobFailure
from sandbox.jsonfile import ManifestError
from sandbox.postrecord import last_records

SANDBOX = Path("../sandbox.tar.gz")
PAYLOAD = Path("../payload.json")
NEEDED_FILES = (Path("../run.sh"), SANDBOX, Path("../back"), PAYLOAD, Path("jobs.json"))
# Thresholds for a dataset that is gone: different files, sites, and share of the groups.
MIN_FILES, MIN_SITES, MIN_SHARE = 3, 2, 0.5
MAX_GROUPS = 25  # of the first and of the last groups that are examined
MAX_SANDBOX_BYTES = 256 * 1024 * 1024


def find_proof(code: int, *, site: str, bad_inputs: Sequence[str]) -> str:
    """Return what proves that the failure affects every node; empty if nothing does."""
    tags = row_of(code).tags
    if Tag.SET_UP in tags:
        return _broken_sandbox()
    if Tag.PAYLOAD in tags:
        return _broken_configuration()
    if Tag.OPEN in tags:
        return _dataset_gone(site, bad_inputs)
    return ""


def _broken_sandbox() -> str:
    for path in NEEDED_FILES:
        if not path.exists():
            return f"{path.name}, which every job needs, is missing on the submit host"
    unpacker = zlib.decompressobj(wbits=31)
    size = 0
    try:
        with open(SANDBOX, "rb") as handle:
            while (chunk := handle.read(1 << 20)) and size < MAX_SANDBOX_BYTES:
                size += len(unpacker.decompress(chunk))
    except (OSError, zlib.error) as error:
        return f"{SANDBOX.name}, which every job unpacks, is broken on the submit host: {error}"
    if not unpacker.eof:
        return f"{SANDBOX.name}, which every job unpacks, is truncated on the submit host"
    return ""


def _broken_configuration() -> str:
    from sandbox.manifest import read_jobs
    from sandbox.registry import load_registry, shipped_plugins

    try:
        plan = read_jobs(Path("jobs.json"), payload=PAYLOAD)
        load_registry(shipped_plugins()).check(plan.payload)
    except ManifestError as error:
        return f"the plan that every job of the group reads is broken on the submit host: {error}"
    except JobFailure as failure:
        return f"the payload configuration, the same for every job, is refused: {failure.message}"
    return ""


def _dataset_gone(site: str, bad_inputs: Sequence[str]) -> str:
    if INPUT_FOUND.exists():
        return ""
    groups = sorted(entry.path for entry in os.scandir("..") if entry.name.startswith("mg_"))
    ended = [group for group in groups if os.path.exists(f"{group}/group.dag.rescue001")]
    if len(ended) < MIN_SHARE * len(groups):
        return ""
    files, sites = set(bad_inputs), {site} if site else set()
    for group in {*ended[:MAX_GROUPS], *ended[-MAX_GROUPS:]}:
        unopened = [one for one in last_records(Path(group)).values() if has_tag(one.exit_code, Tag.OPEN)]
        if not unopened:
            return ""  # it was only stopped
        files.update(lfn for record in unopened for lfn in record.bad_input_files)
        sites.update(record.site for record in unopened if record.site)
    if len(files) < MIN_FILES or len(sites) < MIN_SITES:
        return ""
    expected = {*sites, ""}
    if any(elected_site(Path(group)) not in expected for group in set(groups).difference(ended)):
        return ""  # jobs run at sites without a failure
    found = f"{len(files)} input files could not be opened at {', '.join(sorted(sites))}, and none was read"
    return f"the input dataset is gone: {found}; the first is {min(files)}"
