"""Merged files are read on the storage before they are registered in DBS; a difference stops their block."""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.utils import timezone
from rest_framework.test import APIClient

from dags_app.adapters import dbs
from dags_app.models import Workflow
from outputs_app.models import OutputBlock, OutputFile
from outputs_app.services import advance_block, invalidate_outputs
from outputs_app.states import BlockStatus
from requests_app.lifecycle.advance import advance
from requests_app.models import Request
from requests_app.states import RequestStatus as S
from tests.integration.outputs.blocks import walk

pytestmark = pytest.mark.django_db
B = BlockStatus
SITE = "T1_US_FNAL"


@pytest.fixture(autouse=True)
def storage(settings: Any, tmp_path: Path) -> Iterator[Path]:
    """Return the storage of the site, with the check switched on."""
    settings.CHECK_OUTPUTS = True
    settings.STORAGE_PREFIX = f"{tmp_path}/{{site}}"
    (tmp_path / SITE).mkdir()
    return tmp_path / SITE


def write(storage: Path, file: OutputFile, content: bytes) -> None:
    """Put the file onto the storage, as its job reported it."""
    path = Path(f"{storage}{file.lfn}")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    file.size_bytes, file.adler32 = len(content), f"{zlib.adler32(content):08x}"
    file.save()


@pytest.fixture
def files(storage: Path, block: OutputBlock) -> list[OutputFile]:
    """Return the two files of the block, on the storage."""
    found = list(block.files.order_by("lfn"))
    for number, file in enumerate(found):
        write(storage, file, f"merged file {number}".encode())
    return found


def damage(storage: Path, file: OutputFile, content: bytes | None) -> None:
    path = Path(f"{storage}{file.lfn}")
    path.unlink() if content is None else path.write_bytes(content)


def test_files_that_are_as_reported_go_on_to_dbs(block: OutputBlock, files: list[OutputFile]) -> None:
    assert walk(block).status == B.ANNOUNCED
    assert not OutputFile.objects.filter(checked_at__isnull=True).exists()
    assert set(OutputFile.objects.values_list("check_problem", "checked_content")) == {("", False)}


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"merged file 7", "checksum {found} on the storage, {reported} reported by its job"),
        (b"merged", "6 bytes on the storage, 13 reported by its job"),
        (b"", "0 bytes on the storage, 13 reported by its job"),
        (None, "is not on the storage ({url})"),
    ],
    ids=["other bytes", "cut off", "empty", "lost"],
)
def test_a_difference_stops_the_block_and_names_file_site_and_both_values(
    block: OutputBlock, files: list[OutputFile], storage: Path, content: bytes | None, problem: str
) -> None:
    damage(storage, files[1], content)
    walk(block)
    values = {
        "found": f"{zlib.adler32(content or b''):08x}",
        "reported": files[1].adler32,
        "url": f"{storage}{files[1].lfn}",
    }
    assert (block.status, block.last_error) == (
        B.FAILED, f"{files[1].lfn} at {SITE}: {problem.format(**values)}",
    )  # fmt: skip
    assert dbs().block(block.block_name) is None
    assert block.rules.count() == 0
    assert Path(f"{storage}{files[0].lfn}").exists(), "nothing is removed"


@pytest.mark.parametrize("kind", ["pipe", "link", "directory"])
def test_an_output_that_is_not_a_regular_file_is_not_read(
    block: OutputBlock, files: list[OutputFile], storage: Path, tmp_path: Path, kind: str
) -> None:
    path = Path(f"{storage}{files[1].lfn}")
    (secret := tmp_path / "secret").write_bytes(path.read_bytes())
    path.unlink()
    {"pipe": lambda: os.mkfifo(path), "link": lambda: path.symlink_to(secret), "directory": path.mkdir}[
        kind
    ]()
    walk(block)
    assert (block.status, "is not on the storage" in block.last_error) == (B.FAILED, True)


def test_all_files_that_differ_are_counted(
    block: OutputBlock, files: list[OutputFile], storage: Path
) -> None:
    for file in files:
        damage(storage, file, b"x")
    walk(block)
    assert block.last_error.endswith("1 bytes on the storage, 13 reported by its job; others that differ: 1")


def test_a_storage_that_is_not_there_is_waited_for_and_never_skipped(
    block: OutputBlock, files: list[OutputFile], storage: Path
) -> None:
    storage.rename(away := storage.with_name("away"))
    advance_block(block.pk)
    block.refresh_from_db()
    assert (block.status, block.attempt, block.failing_since is not None) == (B.PENDING, 1, True)
    assert f"the storage of {SITE} does not exist" in block.last_error
    assert block.next_check_at > timezone.now()
    away.rename(storage)
    assert (walk(block).status, block.last_error) == (B.ANNOUNCED, "")


def test_a_file_that_cannot_be_read_now_is_waited_for(
    block: OutputBlock, files: list[OutputFile], monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*args: Any, **options: Any) -> Any:
        raise OSError(5, "Input/output error")

    with monkeypatch.context() as patch:
        patch.setattr("sandbox.storage.posix.checksum", broken)
        advance_block(block.pk)
    block.refresh_from_db()
    assert (block.status, "Input/output error" in block.last_error) == (B.PENDING, True)
    assert walk(block).status == B.ANNOUNCED


def test_a_large_block_continues_where_the_last_task_stopped(
    block: OutputBlock, files: list[OutputFile], settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.CHECK_LOOK_SEC = 0.0
    monkeypatch.setattr("outputs_app.checking.BATCH", 1)
    left = []
    for _ in range(2):
        advance_block(block.pk)
        left.append(block.files.filter(checked_at__isnull=True).count())
        block.refresh_from_db()
    assert (left, block.last_error) == ([1, 0], "")
    assert block.next_check_at <= timezone.now(), "the next task follows at once"
    assert walk(block).status == B.ANNOUNCED


def test_the_check_can_be_switched_off(block: OutputBlock, settings: Any) -> None:
    settings.CHECK_OUTPUTS = False
    assert walk(block).status == B.ANNOUNCED
    assert set(OutputFile.objects.values_list("checked_at", flat=True)) == {None}


@pytest.fixture
def held(block: OutputBlock, files: list[OutputFile], storage: Path) -> Request:
    """Return the request of a block that has failed its check, after its next step."""
    damage(storage, files[0], b"not what it was")
    walk(block)
    request = Request.objects.get(workflow=block.dataset.workflow_id)
    advance(request.pk)
    request.refresh_from_db()
    assert request.status == S.HELD
    return request


def test_the_request_is_held_with_the_difference_and_continues_when_the_file_is_restored(
    held: Request, block: OutputBlock, files: list[OutputFile], storage: Path, operator: APIClient
) -> None:
    evidence = held.hold_evidence or {}
    assert evidence["gate"] == "output check"
    assert evidence["files"] == [
        {
            "lfn": files[0].lfn, "site": SITE, "block": block.block_name,
            "problem": "15 bytes on the storage, 13 reported by its job",
        }
    ]  # fmt: skip
    gates = operator.get(f"/api/v1/requests/{held.request_name}/why").json()["gates"]
    (gate,) = [gate for gate in gates if gate["name"] == "output check"]
    assert (gate["verdict"], files[0].lfn in gate["detail"], SITE in gate["detail"]) == ("block", True, True)

    damage(storage, files[0], b"merged file 0")
    path = f"/api/v1/requests/{held.request_name}/release"
    assert operator.post(path, {"reason": "restored from a copy"}).status_code == 200
    assert (walk(block).status, block.last_error) == (B.ANNOUNCED, "")


def test_a_release_without_a_repair_finds_the_same_again(
    held: Request, block: OutputBlock, operator: APIClient
) -> None:
    path = f"/api/v1/requests/{held.request_name}/release"
    assert operator.post(path, {"reason": "let us see"}).status_code == 200
    assert walk(block).status == B.FAILED


def test_a_failed_block_can_be_taken_back(block: OutputBlock, held: Request, workflow: Workflow) -> None:
    invalidate_outputs(workflow=workflow, actor="user:olga", reason="the merge is broken", now=timezone.now())
    assert walk(block).status == B.INVALIDATED


@pytest.mark.parametrize("left_over", [None, b"of an attempt that ended before its report"])
def test_a_file_at_the_fallback_storage_is_moved_before_it_is_registered(
    block: OutputBlock, files: list[OutputFile], storage: Path, settings: Any, left_over: bytes | None
) -> None:
    fallback = storage.with_name("fallback")
    settings.SITE_STORAGE = {SITE: [str(storage), str(fallback)]}
    written, away = Path(f"{storage}{files[1].lfn}"), Path(f"{fallback}{files[1].lfn}")
    away.parent.mkdir(parents=True)
    content = written.read_bytes()
    written.rename(away)
    if left_over is not None:
        written.write_bytes(left_over)

    assert walk(block).status == B.ANNOUNCED
    assert (written.read_bytes(), away.exists()) == (content, False)


def test_a_block_waits_while_a_file_cannot_be_moved_from_the_fallback_storage(
    block: OutputBlock, files: list[OutputFile], storage: Path, settings: Any
) -> None:
    fallback = storage.with_name("fallback")
    settings.SITE_STORAGE = {SITE: [str(storage), str(fallback)]}
    away = Path(f"{fallback}{files[1].lfn}")
    away.parent.mkdir(parents=True)
    written = Path(f"{storage}{files[1].lfn}")
    written.rename(away)
    written.mkdir()  # no file can take this name

    walk(block)
    assert block.status == B.PENDING
    assert "is at its fallback storage" in block.last_error
    assert away.exists()
    written.rmdir()
    assert walk(block).status == B.ANNOUNCED
