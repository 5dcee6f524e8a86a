"""Check of a block before its registration in DBS: compares every file on the storage with its manifest.

Files that differ stop the block and are all named; the check of a storage that does not answer is retried.
What was checked is recorded file by file, so that a large block continues where the last task stopped.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from itertools import islice

from django.conf import settings

from dags_app.services.credentials import storage_of
from outputs_app.file_check import Reported, compare_bytes, compare_content
from outputs_app.inspecting import Uninspectable, inspect_files
from outputs_app.models import OutputBlock, OutputFile
from outputs_app.states import BlockStatus
from outputs_app.storage import BlockStorage, Measured
from wms2_project.observation import counters

BATCH = 10  # files that one process inspects
WITHOUT_EVENTS = "DQM"  # data tiers whose files have no tree of events begin like this
GOOD, BAD = "good", "differs"


def check(block: OutputBlock, now: datetime) -> BlockStatus:
    """Compare the files of a closed block with the storage, for about as long as one task may take."""
    if not settings.CHECK_OUTPUTS:
        return BlockStatus.CHECKED
    ends = time.monotonic() + settings.CHECK_LOOK_SEC
    with storage_of(workflow=block.dataset.workflow, now=now):
        for batch in _batches(block):
            _check_batch(block, batch, now)
            if time.monotonic() >= ends:
                break
    if block.files.filter(checked_at__isnull=True).exists():
        return BlockStatus(block.status)
    return BlockStatus.FAILED if wrong_files(block) else BlockStatus.CHECKED


def wrong_files(block: OutputBlock) -> list[OutputFile]:
    """Return the files that differ from the reports of their jobs."""
    return list(block.files.exclude(check_problem="").order_by("lfn"))


def describe_wrong(block: OutputBlock) -> str:
    """Name the first file that differs, where it is and how, and count the others."""
    wrong = wrong_files(block)
    if not wrong:
        return ""
    others = f"; others that differ: {len(wrong) - 1}" if len(wrong) > 1 else ""
    return f"{wrong[0].lfn} at {block.site}: {wrong[0].check_problem}{others}"


def _batches(block: OutputBlock) -> Iterator[list[OutputFile]]:
    unchecked = block.files.filter(checked_at__isnull=True).select_related("group").order_by("lfn")
    left = iter(list(unchecked))
    while batch := list(islice(left, BATCH)):
        yield batch


def _check_batch(block: OutputBlock, files: Sequence[OutputFile], now: datetime) -> None:
    """Check size and checksum of each file, then the content of those that are ROOT files."""
    storage, to_open = BlockStorage(block), dict[str, OutputFile]()
    for file in files:
        began, url = time.monotonic(), storage.url(file)
        found = storage.measure(url)
        problem = _compare(file, url, found)
        if problem and (moved := storage.fetch_from_fallback(file)):
            found, problem = moved, _compare(file, url, moved)
        if not problem and found is not None and found.may_be_root and _has_events(block):
            to_open[url] = file
        else:
            _record(file, problem, now, began=began)
    _check_content(storage, to_open, now)


def _compare(file: OutputFile, url: str, found: Measured | None) -> str:
    if found is None:
        return f"is not on the storage ({url})"
    return compare_bytes(reported(file), size_bytes=found.size_bytes, adler32=found.adler32)


def _check_content(storage: BlockStorage, files: Mapping[str, OutputFile], now: datetime) -> None:
    began = time.monotonic()
    for url, content in inspect_files(files, token=storage.token(files), ca_file=settings.STORAGE_CA_FILE):
        file = files[url]
        if isinstance(content, Uninspectable):
            problem = f"cannot be read as a ROOT file: {content.message}"
        else:
            problem = compare_content(reported(file), content) if content is not None else ""
        _record(file, problem, now, began=began, content=content is not None)
        began = time.monotonic()


def _has_events(block: OutputBlock) -> bool:
    name = block.dataset.dataset_name
    return block.dataset.in_dbs and not name.rpartition("/")[2].startswith(WITHOUT_EVENTS)


def reported(file: OutputFile) -> Reported:
    """Return the file as its job reported it."""
    return Reported(
        lfn=file.lfn,
        size_bytes=file.size_bytes,
        adler32=file.adler32,
        events=file.events,
        lumis=file.lumis,
        lumi_events=file.lumi_events,
    )


def _record(file: OutputFile, problem: str, now: datetime, *, began: float, content: bool = False) -> None:
    OutputFile.objects.filter(pk=file.pk).update(
        checked_at=now, check_problem=problem[:2000], checked_content=content
    )
    result = BAD if problem else GOOD
    counters.count(counters.OUTPUT_CHECKS, result, seconds=time.monotonic() - began)
