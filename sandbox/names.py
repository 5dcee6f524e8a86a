"""Names that jobs use, and their paths.

Names of a manifest become paths on storage, so each kind has a strict ASCII grammar without '..'.
"""

from __future__ import annotations

import re

_SEGMENT = r"[A-Za-z0-9_.=#-]+"
SITE = re.compile(r"T[0-3]_[A-Z]{2}_[A-Za-z0-9_]{1,60}", re.ASCII)
NODE = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,63}", re.ASCII)
ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}", re.ASCII)
REQUEST = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,199}", re.ASCII)
DATASET = re.compile(r"/[A-Za-z0-9_-]{1,99}/[A-Za-z0-9._-]{1,199}/[A-Z0-9-]{1,99}", re.ASCII)
LFN = re.compile(rf"/store(/{_SEGMENT})+", re.ASCII)
LFN_BASE = re.compile(rf"/store(/{_SEGMENT})*", re.ASCII)
RELEASE = re.compile(r"CMSSW_[0-9]+_[0-9]+_[A-Za-z0-9_]{1,60}", re.ASCII)
SCRAM_ARCH = re.compile(r"[a-z]+[0-9]+_[a-z0-9]+_[A-Za-z0-9]{1,40}", re.ASCII)
MODULE = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,99}", re.ASCII)  # label of a module in a CMSSW configuration
ADLER32 = re.compile(r"[0-9a-f]{8}", re.ASCII)
# Checksums of older files: capital letters, no leading zeros, or never computed.
CATALOGUE_ADLER32 = re.compile(r"[0-9A-Fa-f]{1,8}|NOTSET", re.ASCII)
MAX_LENGTH = 500
STREAMS = (".out", ".err")  # of a job, after the name of its node


def matches(pattern: re.Pattern[str], value: object) -> bool:
    """Return whether the value is a name of this kind."""
    return (
        isinstance(value, str)
        and len(value) <= MAX_LENGTH
        and ".." not in value
        and pattern.fullmatch(value) is not None
    )


def unmerged_directory(unmerged_base: str, workflow_id: str, group: str, round_number: int) -> str:
    """Return the directory (LFN) of one group in one round, used by no other."""
    return f"{unmerged_base}/{workflow_id}/{group}_r{round_number}"


def unmerged_name(node: str, index: int, outputs: int) -> str:
    """Return the file name of a node's output number `index`, numbered only if there are several."""
    return f"{node}.root" if outputs == 1 else f"{node}.{index}.root"


def log_lfn(base: str, log_id: str) -> str:
    return f"{base}/{log_id}.tar.gz"


def merged_lfn(merged_base: str, merged_id: str) -> str:
    return f"{merged_base}/{merged_id}.root"
