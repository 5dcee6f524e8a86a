"""Submit directories of requests that ended long ago become one archive each, which is removed later."""

from __future__ import annotations

import os
import tarfile
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from django.utils import timezone
from rest_framework.test import APIClient

from dags_app.models import DAGEvent
from dags_app.services.archives import archive_path, remove_old_archives
from requests_app.lifecycle.maintenance import clean_storage
from requests_app.models import Request
from requests_app.states import RequestStatus
from tests.integration.recovery.conftest import _own_submit_root, planned, sites
from tests.integration.recovery.factories import CERN, Round

__all__ = ["_own_submit_root", "planned", "sites"]
pytestmark = pytest.mark.django_db


@pytest.fixture
def ended(planned: Callable[..., Round]) -> Round:
    """Return a round of a request that completed a year ago."""
    made = planned([[CERN]])
    long_ago = timezone.now() - timedelta(days=365)
    made.dag.round.groups.update(status="collected")
    made.dag.round.dags.update(status="completed", completed_at=long_ago)
    Request.objects.update(status=RequestStatus.COMPLETED, status_since=long_ago)
    return made


def contents(path: Path) -> dict[str, bytes]:
    return {str(one.relative_to(path)): one.read_bytes() for one in path.rglob("*") if one.is_file()}


def archived(path: Path) -> dict[str, bytes]:
    with tarfile.open(path) as archive:
        files = {one.name: archive.extractfile(one) for one in archive if one.isfile()}
        return {name: file.read() for name, file in files.items() if file is not None}


def test_the_archive_has_every_file_and_no_link(ended: Round, tmp_path: Path) -> None:
    directory = Path(ended.dag.submit_dir)
    before = contents(directory)
    secret = tmp_path / "secret"
    secret.write_text("of another user")
    (directory / "link").symlink_to(secret)
    (directory / "mg_000000" / "folder").symlink_to(tmp_path)
    os.mkfifo(directory / "pipe")
    clean_storage(now=timezone.now())
    assert not directory.exists()
    assert archived(archive_path(ended.dag.pk)) == before
    assert archive_path(ended.dag.pk).stat().st_mode & 0o777 == 0o600


def test_a_request_for_an_archived_log_names_the_archive(ended: Round, viewer: APIClient) -> None:
    clean_storage(now=timezone.now())
    answer = viewer.get(f"/api/v1/dags/{ended.dag.pk}/logs")
    assert answer.status_code == 404
    assert str(archive_path(ended.dag.pk)) in answer.json()["cure"]
    event = DAGEvent.objects.get(event_type="directory_removed")
    assert event.detail["archive"] == str(archive_path(ended.dag.pk))


def test_an_unwritable_archive_keeps_the_directory(ended: Round, settings: Any, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    settings.ARCHIVE_ROOT = str(tmp_path / "file")
    clean_storage(now=timezone.now())
    assert (Path(ended.dag.submit_dir) / "workflow.dag").exists()


@pytest.mark.parametrize(("days", "kept"), [(364, True), (366, False)])
def test_archives_are_removed_by_age(ended: Round, days: int, kept: bool) -> None:
    clean_storage(now=timezone.now())
    later: datetime = timezone.now() + timedelta(days=days)
    assert remove_old_archives(now=later, seconds=60) == (0 if kept else 1)
    assert archive_path(ended.dag.pk).exists() is kept
