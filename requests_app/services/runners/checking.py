"""Comparison of uploaded outputs with the storage, before they are confirmed."""

from __future__ import annotations

import time
from collections.abc import Sequence
from datetime import datetime

from django.conf import settings

from dags_app.adapters import storage
from dags_app.models import Runner, RunnerOutput
from dags_app.services.credentials import storage_of
from requests_app.services.runners.geography import atlas
from sandbox.storage import Kind, StorageError
from wms2_project.errors import InvalidInput, Wms2Error

CHECK_SEC = 5.0  # of one call; what is left is checked with its block


def check_uploads(runner: Runner, outputs: Sequence[RunnerOutput], *, now: datetime) -> None:
    """Raise InvalidInput if a storage contradicts the size or checksum that the runner recorded.

    If a storage is unreachable, its files are accepted: they are checked again with their block.
    """
    if not settings.CHECK_OUTPUTS or not outputs:
        return
    ends = time.monotonic() + CHECK_SEC
    try:
        with storage_of(workflow=runner.workflow, now=now):
            for index, output in enumerate(outputs):
                if time.monotonic() >= ends:
                    return
                if problem := _problem(output):
                    field = f"outputs[{index}].name"
                    raise InvalidInput(f"{field}: {problem}", fields={field: problem}, cure="Abort")
    except Wms2Error as error:
        if isinstance(error, InvalidInput):
            raise


def _problem(output: RunnerOutput) -> str:
    url = f"{atlas().places.prefixes(output.site)[0]}{output.lfn}"
    try:
        found = storage().stat(url)
    except StorageError as error:
        return f"{output.name} is not on the storage of {output.site}" if error.kind is Kind.ABSENT else ""
    if found.size_bytes != output.size_bytes:
        return f"{output.name} has {found.size_bytes} bytes on storage, {output.size_bytes} were recorded"
    if found.adler32 and found.adler32 != output.adler32:
        return f"{output.name} has checksum {found.adler32} on storage, {output.adler32} was recorded"
    return ""
