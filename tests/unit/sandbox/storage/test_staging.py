"""Files of jobs on failing storage: source of the failure, and location of the file."""

from __future__ import annotations

import base64
import json
import shutil
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from sandbox.context import Context
from sandbox.exitcodes import row_of
from sandbox.failure import JobFailure
from sandbox.filefacts import checksum
from sandbox.manifest import read_jobs
from sandbox.places import Places
from sandbox.registry import load_registry
from sandbox.report import read_report
from sandbox.storage import (
    Storage,
    client,
    input_url,
    measured_input,
    release_input,
    remove_directory,
    stage_out,
    verified_input,
)
from sandbox.streams import CappedStream
from sandbox.tree import Tree
from tests.contract.storage.faults import closed_port
from tests.job_world import NODE, SITE
from tests.unit.sandbox.storage.conftest import Make
from tests.unit.sandbox.storage.webdav import Fault, Serve, Server, certificate

if TYPE_CHECKING:
    from tests.job_world import World

INPUT = "/store/data/a.root"
MERGED = "/store/data/toy/00000000000000000000000000000000.root"
UNMERGED = "/store/unmerged/toy/6f1c2f6e-2c39-4f6e-9f0f-0123456789ab/mg_000000_r0/proc_000000.root"
CONTENT = b"0123456789" * 100
ContextAt = Callable[..., Context]


@pytest.fixture
def context_at(world: World, make_storage: Make) -> ContextAt:
    """Make the context of a job whose site has these prefixes."""
    world.add_job(NODE, [world.add_file("a", 10)])
    world.plan()

    def make(*prefixes: str, storage: Storage | None = None) -> Context:
        return Context(
            manifest=read_jobs(world.group / "jobs.json"),
            node=NODE,
            site=SITE,
            attempt=0,
            scratch=world.root,
            tree=Tree(CappedStream(1), CappedStream(2)),
            registry=load_registry(),
            places=Places({SITE: prefixes}),
            storage=storage or make_storage(pauses_sec=(0, 0)),
        )

    return make


@pytest.fixture
def output(tmp_path: Path) -> Path:
    path = tmp_path / "part0.0.root"
    path.write_bytes(CONTENT)
    return path


def failure(action: Callable[[], object]) -> JobFailure:
    with pytest.raises(JobFailure) as failed:
        action()
    return failed.value


def stage(context: Context, output: Path, lfn: str = UNMERGED) -> None:
    stage_out(context, output, lfn, checksum(output)[1])


@pytest.mark.parametrize(
    ("fault", "code", "category", "blamed"),
    [
        (Fault("GET", status=404), 8020, "data", [INPUT]),
        (Fault("GET", cut=True), 8021, "data", [INPUT]),
        (Fault("GET", status=403), 60322, "permanent", []),
        (Fault("GET", status=503), 60321, "infrastructure", []),
        (Fault("GET", status=500), 60321, "infrastructure", []),
        (Fault("GET", status=408), 60321, "infrastructure", []),
    ],
    ids=lambda value: str(value.status or "cut") if isinstance(value, Fault) else None,
)
def test_a_failed_input_is_the_files_fault_only_if_the_file_is_missing_or_damaged(
    server: Server, context_at: ContextAt, fault: Fault, code: int, category: str, blamed: list[str]
) -> None:
    server.file(INPUT, CONTENT)
    server.faults = [fault]
    failed = failure(lambda: measured_input(context_at(server.url), INPUT))
    assert (failed.code, failed.source, list(failed.bad_inputs)) == (code, "wrapper", blamed)
    assert row_of(failed.code).category == category
    assert not list((context_at().scratch / "inputs").iterdir())


@pytest.mark.parametrize(
    ("fault", "code", "category"),
    [
        (Fault("PUT", status=403), 60322, "permanent"),
        (Fault("PUT", status=507, text="quota exceeded"), 60323, "permanent"),
        (Fault("PUT", status=507), 60321, "infrastructure"),
        (Fault("PUT", status=503), 60321, "infrastructure"),
        (Fault("PUT", status=408), 60317, "infrastructure"),
        (Fault("PUT", cut=True), 60307, "infrastructure"),
        (Fault("PUT", status=400), 60307, "infrastructure"),
    ],
    ids=lambda value: f"{value.status or 'cut'}{value.text}" if isinstance(value, Fault) else None,
)
def test_a_failed_stage_out_has_the_code_of_its_cause(
    server: Server, context_at: ContextAt, output: Path, fault: Fault, code: int, category: str
) -> None:
    server.faults = [fault]
    failed = failure(lambda: stage(context_at(server.url), output))
    assert (failed.code, failed.source) == (code, "wrapper")
    assert row_of(failed.code).category == category
    assert server.files() == []


def test_a_storage_that_refuses_connections_is_down_for_both_directions(
    context_at: ContextAt, output: Path
) -> None:
    with closed_port() as port:
        context = context_at(f"davs://localhost:{port}")
        failed = [failure(lambda: measured_input(context, INPUT)), failure(lambda: stage(context, output))]
    assert [(one.code, one.source, one.bad_inputs) for one in failed] == [(60321, "wrapper", ())] * 2


def test_a_site_without_storage_is_an_error_of_the_setup(context_at: ContextAt, output: Path) -> None:
    failed = failure(lambda: stage(context_at(), output))
    assert (failed.code, failed.source) == (60315, "wrapper")
    assert SITE in failed.message


def test_a_mounted_storage_that_is_missing_is_not_made(
    context_at: ContextAt, output: Path, tmp_path: Path
) -> None:
    failed = failure(lambda: stage(context_at(f"{tmp_path}/not/mounted"), output))
    assert (failed.code, failed.source) == (60321, "wrapper")
    assert not (tmp_path / "not").exists()


def test_an_output_changed_by_the_payload_is_blamed_on_the_payload(
    server: Server, context_at: ContextAt, output: Path
) -> None:
    failed = failure(lambda: stage_out(context_at(server.url), output, UNMERGED, "00000001"))
    assert (failed.code, failed.source) == (60307, "payload")
    assert server.files() == []


def test_an_input_is_copied_once_and_the_copy_can_be_released(server: Server, context_at: ContextAt) -> None:
    path = server.file(INPUT, CONTENT)
    context = context_at(server.url)
    size, adler32 = checksum(path)
    first = verified_input(context, INPUT, size, adler32)
    assert first.read_bytes() == CONTENT
    assert first.name.endswith("-a.root")
    assert verified_input(context, INPUT, size, "") == first
    assert server.methods() == ["GET"]
    (moved,) = context.transfers
    assert (moved.direction, moved.lfn, moved.prefix, moved.size_bytes) == ("in", INPUT, server.url, size)
    release_input(context, first)
    assert not first.exists()


def test_an_input_of_a_mounted_storage_is_read_in_place(context_at: ContextAt, world: World) -> None:
    context = context_at(str(world.storage))
    path, _, _ = measured_input(context, INPUT)
    assert path == Path(f"{world.storage}{INPUT}")
    release_input(context, path)
    assert path.exists()
    assert context.transfers == []


def test_a_copied_input_that_is_not_the_planned_file_is_not_kept(
    server: Server, context_at: ContextAt
) -> None:
    server.file(INPUT, CONTENT)
    context = context_at(server.url)
    failed = failure(lambda: verified_input(context, INPUT, len(CONTENT), "00000001"))
    assert (failed.code, failed.bad_inputs, failed.source) == (8022, (INPUT,), "wrapper")
    assert not list((context.scratch / "inputs").iterdir())


def test_an_input_is_read_from_the_next_prefix_while_the_first_is_down(
    server: Server, context_at: ContextAt
) -> None:
    server.file(INPUT, CONTENT)
    with closed_port() as port:
        context = context_at(f"davs://localhost:{port}", server.url)
        assert measured_input(context, INPUT)[1] == len(CONTENT)
    assert context.transfers[0].place == 1


def test_a_storage_that_is_down_is_named_even_if_the_fallback_lacks_the_file(
    server: Server, context_at: ContextAt
) -> None:
    with closed_port() as port:
        failed = failure(lambda: measured_input(context_at(f"davs://localhost:{port}", server.url), INPUT))
    assert (failed.code, failed.bad_inputs) == (60321, ())


@pytest.mark.parametrize("status", [403, 503, 507])
def test_an_unmerged_file_goes_to_the_next_prefix_and_the_transfer_records_it(
    serve: Serve, context_at: ContextAt, output: Path, status: int
) -> None:
    first, second = serve("first"), serve("second")
    first.faults = [Fault("PUT", status=status)]
    context = context_at(first.url, second.url)
    stage(context, output)
    assert (first.files(), second.files()) == ([], [UNMERGED])
    (moved,) = context.transfers
    assert (moved.place, moved.prefix) == (1, second.url)
    assert str(status) in moved.problem


@pytest.mark.parametrize("moved_later", [True, False])
def test_a_merged_file_goes_to_the_next_prefix_only_if_wms2_moves_it_later(
    serve: Serve, context_at: ContextAt, output: Path, moved_later: bool
) -> None:
    first, second = serve("first"), serve("second")
    first.faults = [Fault("PUT", status=503)]
    context = replace(
        context_at(), places=Places({SITE: (first.url, second.url)}, merged_fallback=moved_later)
    )
    if moved_later:
        stage(context, output, MERGED)
        assert (second.files(), context.transfers[0].place) == ([MERGED], 1)
    else:
        assert failure(lambda: stage(context, output, MERGED)).code == 60321
        assert second.seen == []


@pytest.mark.parametrize(("lifetime_sec", "code", "retry"), [(-60, 99311, "yes"), (60, 60322, "no")])
def test_a_job_whose_token_has_ended_is_reported_and_retried(
    server: Server, context_at: ContextAt, output: Path, lifetime_sec: int, code: int, retry: str
) -> None:
    claims = base64.urlsafe_b64encode(json.dumps({"exp": time.time() + lifetime_sec}).encode())
    token = f"e30.{claims.decode().rstrip('=')}.signature"
    storage = Storage(token=lambda: token, ca_file=certificate()[0], pauses_sec=(0, 0))
    server.tokens = {"another"}
    server.file(INPUT, CONTENT)
    context = context_at(server.url, storage=storage)
    for failed, lfn in (
        (failure(lambda: stage(context, output)), UNMERGED),
        (failure(lambda: measured_input(context, INPUT)), INPUT),
    ):
        assert (failed.code, row_of(failed.code).advice) == (code, retry)
        assert f"{lfn} at {SITE}" in failed.message
        assert ("the job's token ended at" in failed.message) is (lifetime_sec < 0)


@pytest.mark.parametrize(
    ("prefix", "url"),
    [
        ("/storage/{site}", f"file:///storage/{SITE}{INPUT}"),
        ("file:///storage", f"file:///storage{INPUT}"),
        ("davs://se.example.org:2880/cms", f"https://se.example.org:2880/cms{INPUT}"),
        ("root://se.example.org/eos/cms", f"root://se.example.org//eos/cms{INPUT}"),
        ("roots://se.example.org:1094//eos/", f"roots://se.example.org:1094//eos{INPUT}"),
    ],
)
def test_a_streaming_payload_gets_a_url_of_a_supported_scheme(
    context_at: ContextAt, prefix: str, url: str
) -> None:
    assert input_url(context_at(prefix), INPUT) == url


def test_a_directory_is_emptied_at_every_prefix(serve: Serve, context_at: ContextAt) -> None:
    first, second = serve("first"), serve("second")
    directory = UNMERGED.rpartition("/")[0]
    first.file(UNMERGED, b"events")
    first.file(f"{UNMERGED}.part-0123abcd", b"ev")
    second.file(UNMERGED, b"events")
    first.file(INPUT, b"events")
    assert remove_directory(context_at(first.url, second.url), directory) == []
    assert (first.files(), second.files()) == ([INPUT], [])
    assert not (first.root / directory.lstrip("/")).exists()


def test_files_that_could_not_be_deleted_are_listed(server: Server, context_at: ContextAt) -> None:
    server.file(UNMERGED, b"events")
    server.faults = [Fault("DELETE", status=403)]
    left = remove_directory(context_at(server.url), UNMERGED.rpartition("/")[0])
    assert any("proc_000000.root" in one and "403" in one for one in left)


# A whole group


@pytest.fixture
def remote_group(small_group: World, serve: Serve, monkeypatch: pytest.MonkeyPatch) -> World:
    """Return the small group, whose site has WebDAV storage and a token."""
    monkeypatch.setattr(client, "PAUSES_SEC", (0, 0))
    server = serve()
    shutil.copytree(small_group.storage, server.root, dirs_exist_ok=True)
    shutil.rmtree(small_group.storage)
    small_group.storage.symlink_to(server.root)  # to look at the files
    server.tokens = {"good"}
    small_group.prefixes = [server.url]
    shutil.copy(certificate()[0], small_group.root / "ca.pem")
    creds = small_group.root / "creds"
    creds.mkdir()
    (creds / "cms.use").write_text("good\n")
    for name, value in {"_CONDOR_CREDS": str(creds), "WMS2_TOKEN_FILE": "cms.use"}.items():
        monkeypatch.setenv(name, value)
    for name in ("BEARER_TOKEN", "BEARER_TOKEN_FILE", "X509_CERT_FILE"):
        monkeypatch.setenv(name, "")  # the wrapper sets them; put back after the test
    return small_group


def run_group(world: World) -> None:
    world.plan()
    for node in [*world.jobs, "merge", "cleanup"]:
        assert world.post(node, world.run(node)) == 0, world.report(node)["error"]


def test_a_group_runs_on_remote_storage(remote_group: World) -> None:
    run_group(remote_group)
    assert [event.event for event in remote_group.events_at(MERGED)] == list(range(1, 101))
    left = sorted(path.name for path in remote_group.storage.rglob("*.root*"))
    assert left == ["00000000000000000000000000000000.root", "a.root", "b.root"]
    merge = read_report(remote_group.reports / "merge.report.json")
    assert [one.direction for one in merge.transfers] == ["in", "in", "in", "out"]
    assert all(one.size_bytes and one.bytes_per_sec and one.tries == 1 for one in merge.transfers)
    assert not list((remote_group.root / "scratch/merge/inputs").iterdir())


def test_a_merge_reads_an_unmerged_file_where_it_was_written(remote_group: World, serve: Serve) -> None:
    """This holds also if an earlier attempt left another file of this name in the primary storage."""
    remote_group.plan()
    fallback = serve("fallback")
    assert remote_group.prefixes is not None
    with closed_port() as port:
        remote_group.prefixes = [f"davs://localhost:{port}", *remote_group.prefixes, fallback.url]
        for name in ("a", "b"):
            fallback.file(f"/store/data/{name}.root", b"")
        remote_group.plan()
        remote_group.run("proc_000000")
        (written,) = remote_group.report("proc_000000")["outputs"]
        assert written["place"] == 1
    earlier = serve("earlier")
    earlier.file(written["lfn"], b"of an earlier attempt")
    remote_group.prefixes[0] = earlier.url
    run_all = [node for node in remote_group.jobs if node != "proc_000000"]
    remote_group.plan()
    for node in [*run_all, "merge", "cleanup"]:
        remote_group.run(node)
    assert remote_group.report("merge")["error"] == ""
    assert [one["place"] for one in remote_group.report("merge")["transfers"]] == [1, 0, 0, 0]
    assert earlier.files() == [MERGED]
    assert fallback.files() == ["/store/data/a.root", "/store/data/b.root"]


def test_a_claimed_place_that_the_site_does_not_have_is_refused(remote_group: World) -> None:
    remote_group.plan()
    for node in remote_group.jobs:
        remote_group.run(node)
    path = remote_group.reports / "proc_000001.report.json"
    path.write_text(path.read_text().replace('"place":0', '"place":3'))
    remote_group.run("merge")
    assert remote_group.report("merge")["exit_code"] == 99310


def test_the_token_that_htcondor_renews_takes_precedence_over_a_fixed_one(
    remote_group: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BEARER_TOKEN", "expired")
    run_group(remote_group)
