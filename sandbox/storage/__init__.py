"""Storage by URL: mounted file systems, WebDAV over HTTPS, and XRootD.

`Storage` reads and writes files by URL; the functions move the files of a job.
"""

from __future__ import annotations

from sandbox.storage.base import PART_MARK, Backend, Entry, FileStat, Kind, StorageError, Timeouts
from sandbox.storage.client import Storage, is_mounted
from sandbox.storage.posix import local_path
from sandbox.storage.staging import (
    input_url,
    measured_input,
    release_input,
    remove_directory,
    stage_out,
    unreadable,
    verified_input,
)
from sandbox.storage.tokens import discovered_token, use_job_credentials

__all__ = [
    "PART_MARK",
    "Backend",
    "Entry",
    "FileStat",
    "Kind",
    "Storage",
    "StorageError",
    "Timeouts",
    "discovered_token",
    "input_url",
    "is_mounted",
    "local_path",
    "measured_input",
    "release_input",
    "remove_directory",
    "stage_out",
    "unreadable",
    "use_job_credentials",
    "verified_input",
]
