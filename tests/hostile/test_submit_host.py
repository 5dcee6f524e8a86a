"""One request does not fill the submit host: its document, output of jobs and leftovers are limited."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from django.utils import timezone
from rest_framework.test import APIClient

from condor.submitfile import PUSH_ROLES, Role
from dags_app.models import DAG, DAGEvent, Workflow
from dags_app.models import Round as RoundRow
from dags_app.services import directories, disk_space
from dags_app.services.directories import remove_directories
from dags_app.states import DAGStatus, GroupStatus
from requests_app.admission import wake_by_news
from requests_app.documents.limits import MAX_PAYLOAD_BYTES
from requests_app.lifecycle.advance import advance
from requests_app.lifecycle.maintenance import clean_storage
from requests_app.lifecycle.submit_host_gate import watch_space
from requests_app.models import Alert, Request
from requests_app.states import RequestStatus as S
from tests.integration.factories import DOCUMENT, make_dag, make_request, make_round, make_site, make_workflow
from tests.integration.recovery.conftest import _own_submit_root, planned, sites
from tests.integration.recovery.factories import CERN, Round

__all__ = ["_own_submit_root", "planned", "sites"]
pytestmark = pytest.mark.django_db
Planned = Callable[..., Round]


# Size of a request


@pytest.mark.parametrize("inside", ["payload_config", "passed on"])
def test_a_large_payload_configuration_is_refused_by_field_size_and_limit(
    requestor: APIClient, inside: str
) -> None:
    much = {"much": "x" * 900_000}
    body = DOCUMENT | ({"payload_config": much} if inside == "payload_config" else {"Much": much})
    answer = requestor.post("/api/v1/requests", body, format="json")
    assert answer.status_code == 422, answer.content[:300]
    answer_body = answer.json()["errors"]["payload_config"]
    assert "9000" in str(answer_body)
    assert str(MAX_PAYLOAD_BYTES) in str(answer_body)
    assert not Request.objects.exists()


def test_the_payload_configuration_is_on_disk_once_per_dag(planned: Planned) -> None:
    config = {"command": ["/bin/true"], "data": "x" * 90_000}
    round_ = planned([[CERN]] * 40, payload_config=config, jobs_per_group=1)
    directory = Path(round_.dag.submit_dir)
    assert json.loads((directory / "payload.json").read_text()) == config | {"kind": "command"}
    assert len(list(directory.glob("mg_*"))) == 40
    size = sum(path.stat().st_size for path in directory.rglob("*") if path.is_file())
    assert size < 1_000_000, "40 copies would be 3.6 MB"


# Output of its jobs


def test_every_job_with_file_transfer_has_a_limit_of_its_output_sandbox(
    planned: Planned, settings: Any
) -> None:
    settings.MAX_TRANSFER_OUTPUT_MB = 7
    directory = Path(planned([[CERN]]).dag.submit_dir)
    for role in PUSH_ROLES:
        text = (directory / role.submit_file).read_text()
        assert ("max_transfer_output_mb = 7\n" in text) is ("should_transfer_files = YES\n" in text)
        assert ("should_transfer_files = NO\n" in text) is (role is Role.LANDING)


# Free space for others


def generating(status: S) -> Request:
    workflow = make_workflow(input_dataset=None, total_events=100, splitting_algo="EventBased",
                             splitting_params={"events_per_job": 10}, memory_mb=2000)  # fmt: skip
    return make_request(workflow=workflow, status=status, next_check_at=timezone.now())


@pytest.fixture
def full(settings: Any) -> None:
    """Simulate a submit host with less free space than needed."""
    make_site()
    settings.SCHEDDS = ["a@pool"]
    settings.MIN_FREE_BYTES = 2**62


def waits_at(row: Request) -> str:
    advance(row.pk)
    row.refresh_from_db()
    return row.wait_gate


@pytest.mark.usefixtures("full")
@pytest.mark.parametrize(
    ("status", "then"), [(S.QUEUED, S.QUEUED), (S.PILOT_RUNNING, S.PILOT_RUNNING), (S.PLANNING, S.QUEUED)]
)
def test_no_dag_is_made_on_a_full_submit_host(tmp_path: Path, status: S, then: S, viewer: APIClient) -> None:
    row = generating(status)
    advance(row.pk)
    row.refresh_from_db()
    assert row.status == then
    assert waits_at(row) == "space"
    assert (DAG.objects.count(), list(tmp_path.iterdir())) == (0, [])
    body = viewer.get(f"/api/v1/requests/{row.request_name}/why").json()
    (gate,) = [one for one in body["gates"] if one["verdict"] == "block"]
    (message,) = [one for one in gate["evidence"]["directories"] if one["directory"] == str(tmp_path)]
    assert 0 < message["free_bytes"] < message["needed_bytes"] == 2**62
    assert f"{2**62 / 1e6:.0f} MB are needed" in gate["detail"]


@pytest.mark.usefixtures("full")
def test_running_work_continues_while_the_submit_host_is_full(viewer: APIClient) -> None:
    row = generating(S.PILOT_RUNNING)
    make_dag(make_round(row.workflow, kind="pilot"))
    body = viewer.get(f"/api/v1/requests/{row.request_name}/why").json()
    assert [one["verdict"] for one in body["gates"] if one["name"] == "space"] == ["pass"]


@pytest.mark.usefixtures("full")
def test_an_alert_is_open_while_the_host_is_full_and_requests_are_woken_after_it(settings: Any) -> None:
    row = generating(S.QUEUED)
    waits_at(row)
    for _ in range(2):
        watch_space()
    alert = Alert.objects.get(kind="no_space", closed_at__isnull=True)
    assert (alert.subject, alert.count, "are needed" in alert.message) == ("submit host", 2, True)
    Request.objects.update(next_check_at=timezone.now() + timedelta(hours=1))
    assert wake_by_news() == 0
    settings.MIN_FREE_BYTES = 0
    watch_space()
    assert not Alert.objects.filter(kind="no_space", closed_at__isnull=True).exists()
    assert wake_by_news() == 1
    assert waits_at(row) != "space"


@pytest.mark.parametrize(
    ("blocks", "inodes", "files", "short"),
    [
        (1000, 500, 9999, ""),
        (999, 500, 9999, "4 MB free, 4 MB are needed"),
        (1000, 499, 9999, "499 free inodes, 500 are needed"),
        (1000, 0, 0, ""),  # a file system without a limit of inodes
    ],
)
def test_bytes_and_inodes_are_watched(
    settings: Any, monkeypatch: pytest.MonkeyPatch, blocks: int, inodes: int, files: int, short: str
) -> None:
    settings.MIN_FREE_BYTES, settings.MIN_FREE_INODES, settings.STATE_DIR = 4096 * 1000, 500, ""
    found = SimpleNamespace(f_bavail=blocks, f_frsize=4096, f_favail=inodes, f_files=files)
    monkeypatch.setattr(disk_space.os, "statvfs", lambda path: found)
    result = disk_space.describe(disk_space.short_of_space())
    assert result == (f"{settings.SUBMIT_ROOT} has {short}" if short else "")


def test_a_submit_root_that_is_not_made_yet_is_measured_where_it_will_be(
    settings: Any, tmp_path: Path
) -> None:
    settings.SUBMIT_ROOT, settings.STATE_DIR = str(tmp_path / "not" / "yet"), ""
    (found,) = disk_space.measure()
    assert found.free_bytes == pytest.approx(
        os.statvfs(tmp_path).f_bavail * os.statvfs(tmp_path).f_frsize, rel=0.2
    )


# Leftovers of an ended request


def ended(planned: Planned, status: S = S.COMPLETED, days: float = 31.0, **row: Any) -> Round:
    made = planned([[CERN]] * 4)
    for group in made.groups:
        made.finish(group.index)
    made.end(DAGStatus.COMPLETED)
    made.move(status, status_since=timezone.now() - timedelta(days=days))
    RoundRow.objects.filter(pk=made.dag.round_id).update(**{"sweep_at": None} | row)
    return made


def directory(made: Round) -> Path:
    return Path(made.dag.submit_dir)


def test_the_directory_of_a_request_that_ended_long_ago_is_removed_and_its_absence_explained(
    planned: Planned, viewer: APIClient
) -> None:
    made = ended(planned)
    assert viewer.get(f"/api/v1/dags/{made.dag.pk}/logs").status_code == 200
    for _ in range(2):
        clean_storage(now=timezone.now())
    assert not directory(made).exists()
    (event,) = DAGEvent.objects.filter(event_type="directory_removed")
    assert event.detail["directory"] == made.dag.submit_dir
    message = f"removed on {timezone.now():%F} by policy"
    for path in ("logs", "nodes"):
        answer = viewer.get(f"/api/v1/dags/{made.dag.pk}/{path}")
        assert (answer.status_code, message in answer.json()["detail"]) == (404, True)
    assert viewer.get(f"/api/v1/dags/{made.dag.pk}").json()["directory_removed_at"] is not None
    why = viewer.get(f"/api/v1/requests/{made.request.request_name}/why").json()
    assert message in why["summary"]


@pytest.mark.parametrize(
    ("status", "days", "kept"),
    [
        (S.COMPLETED, 29, True),
        (S.COMPLETED, 31, False),
        (S.FAILED, 89, True),
        (S.FAILED, 91, False),
        (S.ABORTED, 89, True),
        (S.ABORTED, 91, False),
        (S.HELD, 999, True),
        (S.ACTIVE, 999, True),
    ],
)
def test_directories_are_kept_by_how_their_request_ended(
    planned: Planned, status: S, days: float, kept: bool
) -> None:
    made = ended(planned, status, days)
    clean_storage(now=timezone.now())
    assert directory(made).exists() is kept


def still_runs(made: Round) -> None:
    DAG.objects.update(status=DAGStatus.RUNNING)


def is_not_collected(made: Round) -> None:
    made.dag.round.groups.filter(index=1).update(status=GroupStatus.DONE)


def has_leftovers(made: Round) -> None:
    RoundRow.objects.update(sweep_at=timezone.now() + timedelta(hours=1))


def is_not_its_own(made: Round) -> None:
    place = directory(made)
    place.rename(place.with_name("elsewhere"))
    place.symlink_to(place.with_name("elsewhere"))


@pytest.mark.parametrize("spare", [still_runs, is_not_collected, has_leftovers, is_not_its_own])
def test_a_directory_that_may_be_needed_is_kept(planned: Planned, spare: Callable[[Round], None]) -> None:
    made = ended(planned)
    spare(made)
    ids = Workflow.objects.values("pk")
    assert remove_directories(ended=ids, now=timezone.now(), seconds=60) == 0
    assert (directory(made) / "workflow.dag").exists()


def test_links_in_a_directory_are_removed_and_not_followed(planned: Planned, tmp_path: Path) -> None:
    made = ended(planned)
    precious = tmp_path / "precious"
    precious.mkdir()
    (precious / "file").write_text("keep me")
    for place in (directory(made), directory(made) / "mg_000000"):
        (place / "link").symlink_to(precious)
    clean_storage(now=timezone.now())
    assert not directory(made).exists()
    assert (precious / "file").read_text() == "keep me"


def test_a_removal_that_ran_out_of_time_continues_in_the_next_task(
    planned: Planned, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = ended(planned)
    entries = len(list(directory(made).iterdir()))
    clock = iter(range(10_000))
    monkeypatch.setattr(directories, "monotonic", lambda: float(next(clock)))
    ids = Workflow.objects.values("pk")
    assert remove_directories(ended=ids, now=timezone.now(), seconds=entries / 2) == 0
    left = len(list(directory(made).iterdir()))
    assert 0 < left < entries
    assert RoundRow.objects.get().directory_removed_at is None
    assert remove_directories(ended=ids, now=timezone.now(), seconds=10 * entries) == 1
    assert not directory(made).exists()
