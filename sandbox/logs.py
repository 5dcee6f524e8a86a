"""The log file of a group: reports, framework job reports and output of its jobs, packed by the cleanup node.

Jobs wrote these files, so only regular ones under planned names are read, each up to a limit.
"""

from __future__ import annotations

import gzip
import io
import os
import tarfile
from pathlib import Path

from sandbox.context import Context
from sandbox.filefacts import checksum
from sandbox.jsonfile import ClaimRefused, open_regular
from sandbox.manifest import LogPlan, MergedFile
from sandbox.names import STREAMS
from sandbox.storage import stage_out

PACKED = (".report.json", ".fjr.xml", *STREAMS)
MAX_FILE_BYTES = 8 * 1024 * 1024
MAX_BYTES = 1024 * 1024 * 1024  # of all files of a group, before compression
OMITTED = "omitted.txt"
MTIME = 315_532_800  # 1980-01-01: packing the same files again gives the same bytes


def stage_out_logs(context: Context, plan: LogPlan) -> MergedFile:
    """Pack the files of the group's jobs, store them, and return the file for the group's manifest."""
    local = context.work / "logs.tar.gz"
    names = [f"{node}{suffix}" for node in [*sorted(context.manifest.jobs), "merge"] for suffix in PACKED]
    pack(context.scratch / "reports", names, local)
    size_bytes, adler32 = checksum(local)
    stage_out(context, local, plan.lfn, adler32)
    return MergedFile(plan.dataset, plan.lfn, size_bytes, adler32, events=0, lumis={}, parents=())


def pack(directory: Path, names: list[str], target: Path, *, most_bytes: int = MAX_BYTES) -> None:
    """Write the named files of a directory into a tarball; what is left out is listed in `omitted.txt`."""
    room, omitted = most_bytes, list[str]()
    with (
        open(target, "wb") as raw,
        gzip.GzipFile("", "wb", fileobj=raw, mtime=0) as packed,
        tarfile.open(fileobj=packed, mode="w|") as archive,
    ):
        for name in names:
            try:
                data, size = _read(directory / name, min(room, MAX_FILE_BYTES))
            except FileNotFoundError:
                continue
            except (ClaimRefused, OSError) as error:
                omitted.append(f"{name}: {error}")
                continue
            room -= len(data)
            _add(archive, name, data)
            if len(data) < size:
                omitted.append(f"{name}: {size - len(data)} of {size} bytes")
        if omitted:
            _add(archive, OMITTED, "".join(f"{line}\n" for line in omitted).encode("ascii", "replace"))


def _read(path: Path, most_bytes: int) -> tuple[bytes, int]:
    """Return the beginning of a regular file, and its size."""
    with open_regular(path) as handle:
        return handle.read(max(most_bytes, 0)), os.fstat(handle.fileno()).st_size


def _add(archive: tarfile.TarFile, name: str, data: bytes) -> None:
    entry = tarfile.TarInfo(name)
    entry.size, entry.mtime, entry.mode = len(data), MTIME, 0o644
    archive.addfile(entry, io.BytesIO(data))
