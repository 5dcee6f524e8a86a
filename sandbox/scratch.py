"""The job's directory, in which the payload runs: only regular files under planned names leave it."""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from pathlib import Path

from sandbox.failure import OUTPUT_MISSING, JobFailure
from sandbox.streams import CappedStream, StreamFile

BACK = "back"
STDOUT, STDERR = 1, 2


class Scratch:
    """The directory as it was before the payload, and the stream files that HTCondor keeps in it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.streams = (CappedStream(STDOUT), CappedStream(STDERR))
        self._files = tuple(StreamFile(descriptor, str(path)) for descriptor in (STDOUT, STDERR))
        self._mode = stat.S_IMODE(os.stat(path).st_mode)

    @property
    def back(self) -> Path:
        """The directory that HTCondor returns to the submit host."""
        return self.path / BACK

    def reclaim(self) -> None:
        """Undo changes by the payload. Call it when none of its processes is left."""
        if stat.S_IMODE(os.stat(self.path).st_mode) != self._mode:
            os.chmod(self.path, self._mode)
        for file in self._files:
            file.restore()
        for stream in self.streams:
            stream.close()
        # Moved, not emptied: a payload can create a directory that is slow or impossible to remove.
        with suppress(FileNotFoundError):
            os.rename(self.back, self.path / f"{BACK}.{os.urandom(8).hex()}")
        self.back.mkdir()


def regular_file(path: Path) -> Path:
    """Return the path if it is a regular file in a real directory; raise JobFailure otherwise."""
    try:
        found = stat.S_ISDIR(os.lstat(path.parent).st_mode) and stat.S_ISREG(os.lstat(path).st_mode)
    except OSError as error:
        raise JobFailure(OUTPUT_MISSING, f"payload: {path.name}: {error.strerror}") from error
    if not found:
        raise JobFailure(OUTPUT_MISSING, f"payload: {path.name} is not a regular file of the job")
    return path
