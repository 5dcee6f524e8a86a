"""Reports of jobs are claims: forged reports and manifests fail the job and reach no table.

The group's jobs run for real. Then a report is changed as a hostile payload could, and is read by the real
POST script, the next job or the collector.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from django.utils import timezone

from dags_app.models import MergeGroup
from dags_app.services import manifests, production
from dags_app.states import GroupStatus
from outputs_app.models import OutputFile
from requests_app.services.outputs import collect as collect_groups
from requests_app.states import RequestStatus
from sandbox.build import build_sandbox
from sandbox.failure import process_exit
from sandbox.fjr import FjrInput, FrameworkError, JobReport
from sandbox.fjrwrite import write_fjr
from sandbox.manifest import read_jobs
from sites_app.selectors import usable_sites
from tests.integration.factories import make_file, make_request, make_site, make_workflow
from tests.job_world import NODE, PLUGINS, RUN, SITE, World
from tests.stand_in import OwnFilesDbs

REFUSED = 99310
STOPPED = 42
FOREIGN = "/store/data/of_another_request.root"
MERGED = "/store/data/toy/00000000000000000000000000000000.root"
Forged = list[tuple[str, Any]]


@pytest.fixture
def group(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    """Return two processing jobs over 90 events of two files, with correct reports."""
    tarball = tmp_path / "built.tar.gz"
    build_sandbox(tarball, plugins=PLUGINS)
    made = World(root=tmp_path, tarball=tarball, monkeypatch=monkeypatch)
    made.storage.mkdir(parents=True)
    first, second = made.add_file("a", 40), made.add_file("b", 60, first=41)
    made.add_job(NODE, [first])
    made.add_job("proc_000001", [{**second, "last_event": 49}])
    made.lumis = {"/store/data/a.root": {str(RUN): [[1, 4]]}, "/store/data/b.root": {str(RUN): [[5, 10]]}}
    made.plan()
    return made


def run(world: World, *nodes: str) -> int:
    """Run the nodes; return the exit status of the last."""
    status = [world.run(node) for node in nodes][-1]
    world.processes = True  # from here on POST is the real script
    return status


def forge(path: Path, changes: Forged) -> None:
    document = json.loads(path.read_text())
    for place, value in changes:
        inner: Any = document
        *parents, last = place.split("/")
        for step in parents:
            inner = inner[int(step) if isinstance(inner, list) else step]
        if value is ...:
            del inner[last]
        elif last == "+":
            inner.append(value)
        else:
            inner[last] = value
    path.write_text(json.dumps(document))


def refusal(world: World, node: str) -> str:
    """Return the reason of a record that refuses a claim and blames neither the site nor a file."""
    record = world.record(node)
    found, job = record["classification"], record["job"]
    assert (found["category"], job["source"], job["exit_code"]) == ("permanent", "payload", REFUSED)
    assert (found["step"], found["bad_input_files"]) == ("cmsRun1", [])
    return str(found["reason"])


PROCESSING: dict[str, tuple[Forged, tuple[str, ...]]] = {
    "3,000,000 lumis from 40 events": ([(f"outputs/0/lumis/{RUN}", [[1, 3_000_000]])], ("3000000", "4")),
    "lumis of another run": ([("outputs/0/lumis", {"1": [[1, 1]]})], ("run 1",)),
    "lumis of the neighbour": ([(f"outputs/0/lumis/{RUN}", [[1, 5]])], ("5",)),
    "8e18 events": (
        [("outputs/0/events", 8 * 10**18), ("events_written", 8 * 10**18)],
        ("8000000000000000000", "40"),
    ),
    "more events written than its files hold": ([("events_written", 41)], ("41", "40")),
    "more events read than planned": ([("events_read", 41)], ("41", "40")),
    "more events of a file than its window": ([("inputs/0/events", 41)], ("41", "40")),
    "a foreign input": ([("inputs/0/lfn", FOREIGN)], (FOREIGN,)),
    "the input of the neighbour": ([("inputs/0/lfn", "/store/data/b.root")], ("/store/data/b.root",)),
    "an input twice": ([("inputs/+", {"lfn": "/store/data/a.root", "events": 0})], ("/store/data/a.root",)),
    "an unplanned dataset": ([("outputs/0/dataset", "/Stolen/Run2026-Test-v1/RECO")], ("/Stolen/", "/Toy/")),
    "an unplanned name": ([("outputs/0/lfn", FOREIGN)], (FOREIGN, f"{NODE}.root")),
    "no output": ([("outputs", [])], ("outputs",)),
    "another group": ([("group", "mg_000009")], ("mg_000009", "mg_000000")),
    "another role": ([("role", "merge")], ("merge", "processing")),
    "a pilot that was not planned": ([("pilot", {})], ("pilot",)),
    "30,000 inputs": (
        [("inputs", [{"lfn": "/store/data/a.root", "events": 0}] * 30_000)],
        ("inputs", "30000", "20000"),
    ),
    "30,000 lumi ranges": (
        [(f"outputs/0/lumis/{RUN}", [[2 * n, 2 * n] for n in range(30_000)])],
        ("lumis", "20000"),
    ),
    "a run in two spellings": ([(f"outputs/0/lumis/0{RUN}", [[1, 4]])], ("lumis",)),
    "memory beyond belief": ([("peak_rss_mb", 2**62)], ("peak_rss_mb",)),
    "not a report at all": ([("outputs", ...)], ("outputs",)),
}  # fmt: skip


@pytest.mark.parametrize("name", PROCESSING)
def test_a_forged_report_of_a_processing_job_stops_it_for_good(group: World, name: str) -> None:
    changes, named = PROCESSING[name]
    status = run(group, NODE)
    forge(group.reports / f"{NODE}.report.json", changes)

    assert (group.post(NODE, status), status) == (STOPPED, 0)
    reason = refusal(group, NODE)
    assert [part for part in named if part not in reason] == [], reason


def test_a_correct_report_is_accepted(group: World) -> None:
    assert group.post(NODE, run(group, NODE)) == 0
    assert group.record(NODE)["classification"]["category"] == "success"


MERGE: dict[str, Forged] = {
    "8e18 events": [("outputs/0/events", 8 * 10**18), ("events_written", 8 * 10**18)],
    "3,000,000 lumis": [(f"outputs/0/lumis/{RUN}", [[1, 3_000_000]])],
    "a foreign input": [("inputs/0/lfn", FOREIGN)],
    "another file": [("outputs/0/lfn", FOREIGN)],
    "more events by lumi than in all": [(f"outputs/0/lumi_events/{RUN}", [[1, 9, 11]])],
    "events in a lumi twice": [(f"outputs/0/lumi_events/{RUN}", [[1, 9, 5], [1, 9, 5]])],
    "events in lumis it does not hold": [(f"outputs/0/lumi_events/{RUN}", [[11, 19, 10]])],
}


@pytest.mark.parametrize("name", MERGE)
def test_a_forged_report_of_a_merge_stops_it_for_good(group: World, name: str) -> None:
    status = run(group, *group.jobs, "merge")
    forge(group.reports / "merge.report.json", MERGE[name])

    assert (group.post("merge", status), status) == (STOPPED, 0)
    refusal(group, "merge")


MANIFEST: dict[str, tuple[Forged, tuple[str, ...]]] = {
    "a foreign parent": ([("outputs/0/parents/+", FOREIGN)], (FOREIGN,)),
    "3,000,000 lumis": ([(f"outputs/0/lumis/{RUN}", [[1, 3_000_000]])], ("3000000", "10")),
    "8e18 events": (
        [("outputs/0/events", 8 * 10**18), ("outputs/0/lumi_events", {}), ("events_written", 8 * 10**18)],
        ("8000000000000000000", "90"),
    ),
    "8e18 events read": ([("events_read", 8 * 10**18)], ("8000000000000000000", "90")),
    "fewer events than its files hold": ([("events_written", 7)], ("7", "90")),
    "events by lumi that do not add up": ([(f"outputs/0/lumi_events/{RUN}", [[1, 9, 1]])], ("9", "90")),
    "more jobs": ([("jobs", 3)], ("3", "2")),
    "another site": ([("site", "T1_US_FNAL")], ("T1_US_FNAL", SITE)),
    "another round": ([("round", 1)], ("round",)),
    "another file": ([("outputs/0/lfn", FOREIGN)], (FOREIGN, MERGED)),
    "measurements that were not planned": ([("pilot", {})], ("pilot",)),
}  # fmt: skip


@pytest.mark.parametrize("name", MANIFEST)
def test_a_forged_manifest_is_not_promoted(group: World, name: str) -> None:
    changes, named = MANIFEST[name]
    status = run(group, *group.jobs, "merge", "cleanup")
    (group.group / "elected_site.inc").write_text(f"elected_site = {SITE}\n")
    forge(group.reports / "merge_output.json.part", changes)

    assert (group.post("cleanup", status), status) == (STOPPED, 0)
    reason = refusal(group, "cleanup")
    assert [part for part in named if part not in reason] == [], reason
    assert not (group.group / "merge_output.json").exists()


# Within the plan, but not what is in the file.
AGAINST_THE_FILE: dict[str, tuple[Forged, tuple[str, ...]]] = {
    "fewer events": ([("outputs/0/events", 39), ("events_written", 39)], ("39", "40")),
    "more events": ([("outputs/0/events", 40), ("events_written", 40)], ("40", "33")),
    "fewer lumis": ([(f"outputs/0/lumis/{RUN}", [[2, 4]])], (f"run {RUN}", "1")),
    "another size": ([("outputs/0/size_bytes", 7)], ("7 ", "size")),
    "another checksum": ([("outputs/0/adler32", "0badcafe")], ("0badcafe", "adler32")),
}


@pytest.mark.parametrize("name", AGAINST_THE_FILE)
def test_the_merge_compares_each_claim_with_the_file(group: World, name: str) -> None:
    changes, named = AGAINST_THE_FILE[name]
    group.payload = {"toy": {"filter_efficiency": 0.75}} if name == "more events" else {}
    group.plan()
    run(group, *group.jobs)
    forge(group.reports / f"{NODE}.report.json", changes)
    group.processes = False
    status = run(group, "merge")
    found = group.report("merge")

    assert (status, found["exit_code"], found["outputs"]) == (process_exit(REFUSED), REFUSED, [])
    assert NODE in found["error"]
    assert [part for part in named if part not in found["error"]] == [], found["error"]
    assert group.post("merge", status) == STOPPED
    refusal(group, "merge")


@pytest.mark.parametrize(
    "changes",
    [
        [
            ("outputs/0/events", 89),
            ("events_written", 89),
            (f"outputs/0/lumi_events/{RUN}", [[1, 8, 10], [9, 9, 9]]),
        ],
        [(f"outputs/0/lumi_events/{RUN}", [[1, 1, 9], [2, 8, 10], [9, 9, 11]])],
        [(f"outputs/0/lumis/{RUN}", [[1, 10]])],
    ],
    ids=["events", "events by lumi", "lumis"],
)  # fmt: skip
def test_cleanup_compares_the_merged_file_before_anything_is_deleted(group: World, changes: Forged) -> None:
    run(group, *group.jobs, "merge")
    forge(group.reports / "merge.report.json", changes)
    group.processes = False
    status = run(group, "cleanup")

    assert (status, group.report("cleanup")["exit_code"]) == (process_exit(REFUSED), REFUSED)
    assert not (group.reports / "merge_output.json.part").exists()
    assert len(list(group.storage.rglob("proc_*.root"))) == 2


def test_a_forged_framework_report_is_refused_where_it_is_all_there_is(group: World) -> None:
    run(group, NODE)
    (group.reports / f"{NODE}.report.json").unlink()
    read = FjrInput("/store/data/a.root", "", 8 * 10**18)
    report = JobReport(errors=(FrameworkError(8001, "Oops", "failed"),), input_files=(read,))
    write_fjr(group.reports / f"{NODE}.fjr.xml", report)

    assert group.post(NODE, process_exit(8001)) == STOPPED
    assert "8000000000000000000" in refusal(group, NODE)


@pytest.fixture
def waiting(tmp_path: Path, settings: Any, adapt: Callable[..., None], db: None) -> MergeGroup:
    """Return a planned group in the tables and on disk, whose jobs have ended."""
    settings.SUBMIT_ROOT = str(tmp_path)
    settings.STORAGE_PREFIX = "/srv/storage/{site}"
    adapt(dbs=OwnFilesDbs())
    make_site(SITE)
    workflow = make_workflow(splitting_params={"files_per_job": 1})
    make_file(workflow, lfn="/store/data/in.root", events=50, locations=[SITE], lumis=[[RUN, 1, 5]])
    make_request(workflow=workflow, status=RequestStatus.ACTIVE)
    pool = usable_sites(workflow=workflow, now=timezone.now())
    dag = production.plan_round(workflow=workflow, sites=pool, priority=0)
    dag.round.groups.update(status=GroupStatus.DONE)
    return dag.round.groups.select_related("round").get()


def manifest_of(directory: Path) -> dict[str, Any]:
    """Return a correct manifest of the planned group."""
    plan = read_jobs(directory / "jobs.json")
    output = {
        "size_bytes": 5000, "adler32": "0123abcd", "events": 50, "lumis": {str(RUN): [[1, 5]]},
        "lumi_events": {str(RUN): [[1, 5, 10]]}, "parents": ["/store/data/in.root"],
    }  # fmt: skip
    metrics = {
        "wall_time_per_event_sec": 0.1, "peak_rss_mb": 50, "output_kb_per_event": 1.0, "cpu_efficiency": 0.9,
        "jobs": 1, "wall_time_sec": 10.0,
    }  # fmt: skip
    return {
        "schema": 1, "workflow_id": plan.workflow_id, "round": plan.round, "group": plan.group, "site": SITE,
        "jobs": 1, "events_read": 50, "events_written": 50, "metrics": metrics, "pilot": None,
        "outputs": [{**output, "dataset": one.dataset, "lfn": plan.merged_lfn(one)} for one in plan.outputs],
    }  # fmt: skip


COLLECTED: dict[str, tuple[Forged, str]] = {
    "3,000,000 lumis from 50 events": ([(f"outputs/0/lumis/{RUN}", [[1, 3_000_000]])], "3000000"),
    "a foreign parent": ([("outputs/0/parents", [FOREIGN])], FOREIGN),
    "8e18 events": (
        [("outputs/0/events", 8 * 10**18), ("outputs/0/lumi_events", {}), ("events_written", 8 * 10**18)],
        "8000000000000000000",
    ),
    "another site": ([("site", "T1_US_FNAL")], "T1_US_FNAL"),
    "30,000 parents": ([("outputs/0/parents", ["/store/data/in.root"] * 30_000)], "20000"),
}  # fmt: skip


def collect(waiting: MergeGroup, changes: Forged) -> Path:
    dag = waiting.round.dags.get()
    directory = Path(dag.submit_dir) / waiting.name
    (directory / "elected_site.inc").write_text(f"elected_site = {SITE}\n")
    path = directory / "merge_output.json"
    path.write_text(json.dumps(manifest_of(directory)))
    forge(path, changes)
    return directory


@pytest.mark.parametrize("name", COLLECTED)
def test_a_forged_manifest_reaches_no_table(waiting: MergeGroup, name: str) -> None:
    changes, named = COLLECTED[name]
    collect(waiting, changes)

    ((_, found),) = manifests.finished_groups(dag=waiting.round.dags.get())
    assert isinstance(found, manifests.BadManifest), found
    assert named in str(found)
    with pytest.raises(manifests.BadManifest):
        collect_groups(waiting.round.dags.get(), timezone.now())
    waiting.refresh_from_db()
    assert (waiting.status, OutputFile.objects.count()) == (GroupStatus.DONE, 0)


def test_an_honest_manifest_reaches_the_tables(waiting: MergeGroup) -> None:
    collect(waiting, [])
    collect_groups(waiting.round.dags.get(), timezone.now())
    waiting.refresh_from_db()
    assert (waiting.status, waiting.events_written) == (GroupStatus.COLLECTED, 50)


LINKS: dict[str, Callable[[Path, Path], None]] = {
    "a link": lambda path, secret: path.symlink_to(secret),
    "a directory": lambda path, secret: path.mkdir(),
}


@pytest.mark.parametrize("name", LINKS)
def test_a_manifest_is_a_file_of_its_own(waiting: MergeGroup, tmp_path: Path, name: str) -> None:
    directory = collect(waiting, [])
    path = directory / "merge_output.json"
    path.rename(tmp_path / "elsewhere.json")
    LINKS[name](path, tmp_path / "elsewhere.json")

    ((_, found),) = manifests.finished_groups(dag=waiting.round.dags.get())
    assert isinstance(found, manifests.BadManifest)
    assert "regular file" in str(found)
