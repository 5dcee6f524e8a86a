"""Leftovers of jobs on the sites' storage are removed when they are not needed, and no other files are."""

from __future__ import annotations

import os
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.utils import timezone

from condor.fake import FakeSchedd
from dags_app.models import DAG, DAGEvent, MergeGroup, Round
from dags_app.services import production
from dags_app.services.production import merged_lfns
from dags_app.states import DAGStatus, GroupStatus
from requests_app.lifecycle.maintenance import clean_storage
from requests_app.states import RequestStatus as S
from sandbox.manifest import read_jobs
from sandbox.storage import Storage
from tests.integration.recovery.factories import CERN, DESY, PURDUE
from tests.integration.recovery.factories import Round as Made
from tests.unit.sandbox.storage.conftest import QUICK, serve
from tests.unit.sandbox.storage.webdav import Fault, Serve, Server, certificate

__all__ = ["serve"]
pytestmark = pytest.mark.django_db
Planned = Callable[..., Made]


@pytest.fixture
def storage(settings: Any, tmp_path: Path) -> Path:
    """Return the storages of all sites, empty."""
    root = tmp_path / "storage"
    settings.STORAGE_PREFIX = f"{root}/{{site}}"
    for site in (CERN, DESY, PURDUE):
        (root / site).mkdir(parents=True)
    return root


@pytest.fixture
def server(serve: Serve, settings: Any, adapt: Callable[..., None]) -> Server:
    """Return the storage of CERN by WebDAV."""
    made = serve()
    settings.SITE_STORAGE = {CERN: [made.url]}
    adapt(storage=Storage(token=str, ca_file=str(certificate()[0]), timeouts=QUICK, pauses_sec=()))
    return made


def unmerged(storage: Path, made: Made, index: int, *, site: str = CERN) -> Path:
    """Return the group's unmerged directory at the site, with a file and part of another."""
    base = "store/unmerged/Run2031A/Muons/AOD/First-v1"
    directory = storage / site / base / str(made.workflow.pk) / f"mg_{index:06d}_r{made.dag.round.number}"
    directory.mkdir(parents=True)
    (directory / "proc_000000.root").write_text("events")
    (directory / "proc_000001.root.part-0a0b0c0d").write_text("ev")
    return directory


def merged(storage: Path, made: Made, index: int, *, site: str = CERN) -> list[Path]:
    """Return the group's merged file at the site, and parts of those of earlier attempts."""
    (lfn,) = merged_lfns(made.groups[index])
    whole = Path(f"{storage}/{site}{lfn}")
    parts = [
        whole.with_name(f"{whole.name}.part-aabbccdd"),
        whole.with_name(f".{whole.name}.12.aabbccdd.tmp"),
    ]
    whole.parent.mkdir(parents=True, exist_ok=True)
    for path in (whole, *parts):
        path.write_text("events")
    return [whole, *parts]


def files(storage: Path) -> list[Path]:
    return sorted(path for path in storage.rglob("*") if not path.is_dir())


def test_the_directory_is_the_one_the_sandbox_writes_to(planned: Planned, storage: Path) -> None:
    made = planned([[CERN]] * 2)
    plan = read_jobs(made.directory(0) / "jobs.json")
    lfn = plan.unmerged_directory(plan.outputs[0])
    assert f"{storage}/{CERN}{lfn}" == str(unmerged(storage, made, 0))
    assert merged_lfns(made.groups[0]) == [plan.merged_lfn(plan.outputs[0])]


@pytest.mark.parametrize("status", [S.ABORTED, S.FAILED])
def test_an_ended_request_leaves_nothing_it_did_not_register(
    planned: Planned, storage: Path, status: S
) -> None:
    made = planned([[CERN]] * 4)
    made.finish(0)
    kept, *_ = merged(storage, made, 0)
    merged(storage, made, 1)
    unmerged(storage, made, 1)
    unmerged(storage, made, 1, site=DESY)  # where it had landed before
    made.end(DAGStatus.STOPPED)
    made.move(status)
    clean_storage(now=timezone.now())
    assert files(storage) == [kept]
    assert not list(storage.rglob(str(made.workflow.pk)))
    assert Round.objects.get().sweep_at is None
    (event,) = DAGEvent.objects.filter(event_type="leftovers_removed")
    assert event.detail == {"files": 9, "left": [], "left_count": 0}


def test_failed_groups_of_a_closed_round_are_cleaned_while_the_request_continues(
    planned: Planned, storage: Path
) -> None:
    made = planned([[CERN]] * 4)
    made.finish(0)
    made.fail(1)
    unmerged(storage, made, 1)
    made.end()
    production.resolve_round(round_=made.dag.round, now=timezone.now())
    clean_storage(now=timezone.now())
    assert files(storage) == []


@pytest.mark.parametrize("status", [S.HELD, S.ACTIVE, S.RESUBMITTING, S.QUEUED])
def test_a_stop_keeps_the_files_of_a_resume_until_the_request_ends(
    planned: Planned, storage: Path, status: S
) -> None:
    made = planned([[CERN]] * 2)
    unmerged(storage, made, 0)
    made.end(DAGStatus.STOPPED)
    made.move(status)
    clean_storage(now=timezone.now())
    assert len(files(storage)) == 2
    made.move(S.ABORTED)
    clean_storage(now=timezone.now())
    assert files(storage) == []


def test_nothing_is_removed_while_the_dag_or_a_job_of_it_is_in_a_queue(
    planned: Planned, storage: Path, fake_schedd: FakeSchedd
) -> None:
    made = planned([[CERN]] * 2)
    unmerged(storage, made, 0)
    made.move(S.ABORTED)
    clean_storage(now=timezone.now())
    assert len(files(storage)) == 2, "the DAG is not gone yet"
    made.end(DAGStatus.STOPPED)
    DAG.objects.update(schedd_name=fake_schedd.name)
    fake_schedd.add_dag(made.dag.token)
    fake_schedd.start_job(made.dag.token, "mg_000000", "proc_000000")
    left = []
    for meanwhile in (fake_schedd.silence, fake_schedd.answer, fake_schedd.answer):
        meanwhile()
        Round.objects.update(sweep_at=timezone.now())
        clean_storage(now=timezone.now())
        left.append(len(files(storage)))
    assert left == [2, 2, 0]


def test_other_rounds_and_other_requests_are_not_changed(planned: Planned, storage: Path) -> None:
    made, other = planned([[CERN]] * 2), planned([[CERN]] * 2)
    mine, theirs = unmerged(storage, made, 0), unmerged(storage, other, 0)
    later = mine.with_name("mg_000000_r1")
    later.mkdir()
    (later / "proc_000000.root").write_text("events")
    theirs_merged = merged(storage, other, 0)
    made.end()
    production.resolve_round(round_=made.dag.round, now=timezone.now())
    clean_storage(now=timezone.now())
    assert files(storage) == sorted([*theirs.iterdir(), *theirs_merged, later / "proc_000000.root"])


def test_links_are_removed_and_never_followed(planned: Planned, storage: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    (outside / "mg_000001_r0").mkdir(parents=True)
    precious = outside / "mg_000001_r0" / "precious"
    precious.write_text("not ours")
    made = planned([[CERN]] * 4)
    directory = unmerged(storage, made, 0)
    (directory / "link").symlink_to(precious)
    directory.with_name("mg_000001_r0").symlink_to(outside / "mg_000001_r0")
    elsewhere = unmerged(storage, made, 0, site=DESY).parent
    elsewhere.rename(outside / "moved")
    elsewhere.symlink_to(outside / "moved")
    made.end()
    made.move(S.ABORTED)
    clean_storage(now=timezone.now())
    assert precious.exists()
    assert len(list((outside / "moved").rglob("*.root"))) == 1
    assert not directory.parent.exists()


def test_leftovers_that_cannot_be_removed_are_retried_and_named_in_the_end(
    planned: Planned, storage: Path
) -> None:
    made = planned([[CERN]] * 2)
    made.fail(0)
    unmerged(storage, made, 0)
    (storage / CERN).rename(storage / "away")
    made.end()
    production.resolve_round(round_=made.dag.round, now=timezone.now())
    clean_storage(now=timezone.now())
    next_try = Round.objects.get().sweep_at
    assert next_try is not None
    assert next_try > timezone.now()
    clean_storage(now=timezone.now() + timedelta(days=8))
    assert Round.objects.get().sweep_at is None
    left = DAGEvent.objects.get(event_type="leftovers_removed").detail["left"]
    assert left == [f"the storage of {CERN} does not exist"]


def test_a_sweep_that_is_out_of_time_continues_in_the_next_run(
    planned: Planned, storage: Path, settings: Any
) -> None:
    made = planned([[CERN]] * 2)
    unmerged(storage, made, 0)
    made.end()
    made.move(S.ABORTED)
    settings.CLEAN_LOOK_SEC = 0.0
    clean_storage(now=timezone.now())
    assert len(files(storage)) == 2
    assert Round.objects.get().sweep_at is not None
    settings.CLEAN_LOOK_SEC = 60.0
    clean_storage(now=timezone.now())
    assert files(storage) == []


def test_a_discarded_group_leaves_no_merged_file(planned: Planned, storage: Path) -> None:
    made = planned([[CERN]] * 2)
    merged(storage, made, 0)
    MergeGroup.objects.update(status=GroupStatus.DONE)
    made.end(DAGStatus.COMPLETED)
    production.resolve_round(round_=made.dag.round, now=timezone.now())
    clean_storage(now=timezone.now())
    assert files(storage) == []
    assert os.listdir(storage)


# Storage that is not mounted


def put(server: Server, made: Made, index: int) -> list[str]:
    """Put unmerged and merged files of a group, whole and in parts, on the server; return their LFNs."""
    base = f"/store/unmerged/Run2031A/Muons/AOD/First-v1/{made.workflow.pk}/mg_{index:06d}_r0"
    (merged_lfn,) = merged_lfns(made.groups[index])
    lfns = [f"{base}/proc_000000.root", merged_lfn]
    for lfn in lfns:
        server.file(lfn, b"events")
        server.file(f"{lfn}.part-0123abcd", b"ev")
    return lfns


def test_remote_storage_is_swept(planned: Planned, storage: Path, server: Server) -> None:
    made = planned([[CERN]] * 4)
    put(server, made, 0)
    _, kept = put(server, made, 1)
    theirs = planned([[CERN]] * 2)
    others = put(server, theirs, 0)
    made.fail(0)
    made.finish(1)
    made.end()
    made.move(S.ABORTED)
    clean_storage(now=timezone.now())
    assert server.files() == sorted([kept, *others, *(f"{lfn}.part-0123abcd" for lfn in others)])
    assert not list(server.root.rglob(str(made.workflow.pk)))
    assert DAGEvent.objects.get(event_type="leftovers_removed").detail["files"] == 7


def test_remote_storage_that_no_group_used_is_not_called(
    planned: Planned, storage: Path, server: Server
) -> None:
    made = planned([[DESY]] * 2)
    made.fail(0, DESY)
    made.end()
    made.move(S.ABORTED)
    clean_storage(now=timezone.now())
    assert server.seen == []
    assert Round.objects.get().sweep_at is None


@pytest.mark.parametrize("method", ["PROPFIND", "DELETE"])
def test_remote_storage_that_fails_is_swept_again(
    planned: Planned, storage: Path, server: Server, method: str
) -> None:
    made = planned([[CERN]] * 2)
    put(server, made, 0)
    made.fail(0)
    made.end()
    made.move(S.ABORTED)
    server.faults = [Fault(method, status=503)]
    clean_storage(now=timezone.now())
    assert Round.objects.get().sweep_at is not None
    server.faults.clear()
    Round.objects.update(sweep_at=timezone.now())
    clean_storage(now=timezone.now())
    assert server.files() == []


def test_files_are_removed_at_the_prefixes_of_the_dag(
    planned: Planned, storage: Path, server: Server, settings: Any
) -> None:
    """Another prefix in the settings applies to new DAGs."""
    made = planned([[CERN]] * 2)
    put(server, made, 0)
    made.fail(0)
    made.end()
    made.move(S.ABORTED)
    settings.SITE_STORAGE = {}
    clean_storage(now=timezone.now())
    assert server.files() == []
