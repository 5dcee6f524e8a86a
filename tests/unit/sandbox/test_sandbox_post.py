"""The POST script: one of four exit codes for an attempt, and a record with the reason."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sandbox import post_script
from sandbox.build import SOURCE, copy_scripts
from sandbox.evidence import promote_manifest
from sandbox.failure import process_exit
from sandbox.fjr import FrameworkError, JobReport
from sandbox.fjrwrite import write_fjr
from sandbox.postrecord import last_records, read_record
from sandbox.report import NodeReport, write_report
from tests.job_world import LOG, NODE, fail

if TYPE_CHECKING:
    from tests.job_world import World

LFN = "/store/data/a.root"


@pytest.mark.parametrize(
    ("code", "answer", "category", "action"),
    [
        (0, 0, "success", "none"),
        (60307, 1, "infrastructure", "retry"),
        (8004, 1, "transient", "retry_more_memory"),
        (8021, 42, "data", "permanent_failure"),
        (8001, 42, "permanent", "permanent_failure"),
        (7001, 42, "permanent", "permanent_failure"),
    ],
)
def test_the_code_of_the_report_decides_not_the_exit_status(
    failed: World, code: int, answer: int, category: str, action: str
) -> None:
    status = fail(failed, code)

    assert failed.post(NODE, status) == answer
    record = failed.record(NODE)
    assert record["job"]["exit_code"] == record["cmssw"]["exit_code"] == code
    assert (record["classification"]["category"], record["classification"]["action"]) == (category, action)
    assert record["final"] is (answer != 1)
    assert record["classification"]["bad_input_files"] == ([LFN] if category == "data" else [])


def test_a_record_has_all_that_the_next_level_reads(failed: World) -> None:
    status = fail(failed, 60307)
    (failed.group / f"{NODE}.err").write_bytes(b"line\n" * 500 + b"\xff\x00 the end\n")
    (failed.group / "group.dag.nodes.log").write_text(LOG.split("006")[0])
    failed.post(NODE, status)
    record = failed.record(NODE)

    assert {"node_name", "timestamp", "attempt", "max_retries", "final", "log_tail"} <= set(record)
    assert {"job", "cmssw", "classification"} <= set(record)
    assert record["job"]["site"] == "T1_US_FNAL"
    assert record["cmssw"]["steps"] == {
        "cmsRun1": {"status": 0, "exit_code": 0},
        "stageOut1": {"status": 1, "exit_code": 60307},
    }
    assert record["log_tail"].endswith("? the end\n")
    assert record["log_tail"].count("\n") == 200
    read = read_record(failed.group / f"{NODE}.post.0.json")
    assert (read.category, read.retryable, read.site, read.exit_code) == (
        "infrastructure",
        True,
        "T1_US_FNAL",
        60307,
    )
    assert (read.step, read.hold_reason, read.proof) == ("stageOut1", "", "")


def test_the_last_retry_is_final(failed: World) -> None:
    for attempt in range(3):
        status = fail(failed, 60307)
        assert failed.post(NODE, status, retry=attempt, job_id=f"{attempt}.0", max_retries=2) == 1

    assert [failed.record(NODE, attempt)["final"] for attempt in range(3)] == [False, False, True]
    assert failed.record(NODE, 2)["classification"]["action"] == "retries_exhausted"
    last = last_records(failed.group)[NODE]
    assert (last.attempt, last.limit) == (2, "all 3 attempts were used")
    assert failed.record(NODE, 1)["classification"]["limit"] == ""


def test_an_earlier_report_does_not_count_for_a_later_attempt(failed: World) -> None:
    status = fail(failed, 60307)
    failed.post(NODE, status)

    assert failed.post(NODE, status, retry=1, job_id="8.0") == 1
    assert failed.record(NODE, 1)["job"]["exit_code"] == 99303
    assert (failed.reports / f"{NODE}.attempt0.report.json").exists()


def test_a_success_report_does_not_excuse_a_failed_exit(failed: World) -> None:
    assert failed.run(NODE) == 0

    assert failed.post(NODE, 9) == 1
    assert failed.record(NODE)["job"]["exit_code"] == 99303


def test_success_without_a_report_is_no_success(failed: World) -> None:
    assert failed.post(NODE, 0) == 1
    assert failed.record(NODE)["classification"]["category"] == "infrastructure"


def test_the_same_job_judged_again_gets_the_same_answer(failed: World) -> None:
    status = fail(failed, 8021)
    first = failed.post(NODE, status)
    before = failed.record(NODE)

    assert failed.post(NODE, status) == first == 42
    assert failed.record(NODE) == before


def test_a_rescue_starts_a_new_count_of_attempts(failed: World) -> None:
    for attempt in range(3):
        failed.post(NODE, fail(failed, 60307), retry=attempt, job_id=f"{attempt}.0")
    status = fail(failed, 0)

    assert failed.post(NODE, status, retry=0, job_id="50.0") == 0
    assert sorted(path.name for path in failed.group.glob("*.post.*")) == [f"{NODE}.post.0.json"]
    assert last_records(failed.group)[NODE].category == "success"


def test_a_job_held_for_memory_and_removed_is_tried_with_more(failed: World) -> None:
    (failed.group / "group.dag.nodes.log").write_text(LOG)

    assert failed.post(NODE, -1002) == 1
    record = failed.record(NODE)
    assert record["job"]["exit_code"] == 50660
    assert "memory limit" in record["job"]["hold_reason"]
    assert record["job"]["memory_mb"] == 777
    assert record["classification"]["action"] == "retry_more_memory"
    read = read_record(failed.group / f"{NODE}.post.0.json")
    assert read.step == ""
    assert "memory limit" in read.hold_reason


MEASURED = (
    "megabytes. Last measured usage: 910 megabytes. Consider resubmitting with a higher request_memory."
)


@pytest.mark.parametrize(
    ("log", "reported_mb", "found_mb"),
    [
        ("", 500, 500),
        (LOG, 500, 777),
        (LOG, 800, 800),
        (LOG.replace("megabytes.", MEASURED), 500, 910),
        (LOG.replace("777", "0").replace("memory limit", "disk limit"), 10, 10),
    ],
    ids=["report", "HTCondor's measurement", "a report above it", "hold reason", "a hold for disk"],
)
def test_the_memory_of_a_job_is_the_most_that_anything_measured(
    failed: World, log: str, reported_mb: int, found_mb: int
) -> None:
    status = fail(failed, 50660)
    path = failed.reports / f"{NODE}.report.json"
    path.write_text(json.dumps(failed.report(NODE) | {"peak_rss_mb": reported_mb}))
    (failed.group / "group.dag.nodes.log").write_text(log)
    failed.post(NODE, status)

    read = read_record(failed.group / f"{NODE}.post.0.json")
    assert (read.memory_mb, read.memory_asked_mb) == (found_mb, 1000)


@pytest.mark.parametrize(("message", "read"), [("1400.4", 1400), ("-5", 0), ("nan", 0), ("1e300", 10**9)])
def test_plausible_measurements_of_a_framework_report_are_accepted(
    failed: World, message: str, read: int
) -> None:
    figures = {"ApplicationMemory": {"PeakValueRss": message}, "Timing": {"TotalJobTime": message}}
    errors = (FrameworkError(50660, "OverMemory", "too much"),)
    write_fjr(failed.reports / f"{NODE}.fjr.xml", JobReport(errors=errors, performance=figures))
    failed.post(NODE, 50660 % 256)

    assert read_record(failed.group / f"{NODE}.post.0.json").memory_mb == read


def test_a_record_of_an_older_sandbox_is_still_read(failed: World) -> None:
    failed.post(NODE, fail(failed, 60307))
    path = failed.group / f"{NODE}.post.0.json"
    record = failed.record(NODE)
    for part, key in (("job", "hold_reason"), ("classification", "step"), ("classification", "proof")):
        del record[part][key]
    del record["memory"], record["classification"]["limit"]
    path.write_text(json.dumps(record))

    read = read_record(path)
    assert (read.step, read.hold_reason, read.proof, read.exit_code) == ("", "", "", 60307)
    assert (read.limit, read.memory_asked_mb) == ("", 0)


def test_a_signal_is_recorded(failed: World) -> None:
    assert failed.post(NODE, -9) == 1
    assert (failed.record(NODE)["job"]["exit_signal"], failed.record(NODE)["job"]["exit_code"]) == (9, 137)


def test_the_framework_report_counts_when_the_other_is_lost(failed: World) -> None:
    status = fail(failed, 8021)
    (failed.reports / f"{NODE}.report.json").unlink()

    assert failed.post(NODE, status) == 42
    assert failed.record(NODE)["classification"]["bad_input_files"] == [LFN]


@pytest.mark.parametrize("damage", ["missing", "truncated"])
def test_cleanup_is_done_only_with_a_whole_manifest(small_group: World, damage: str) -> None:
    small_group.plan()
    for node in [*small_group.jobs, "merge"]:
        small_group.run(node)
    status = small_group.run("cleanup")
    part = small_group.reports / "merge_output.json.part"
    text = part.read_text()
    if damage == "missing":
        part.unlink()
    else:
        part.write_text(text[:-20])

    assert small_group.post("cleanup", status) == 1
    assert not (small_group.group / "merge_output.json").exists()
    assert "manifest is not usable" in small_group.record("cleanup")["classification"]["reason"]


def test_a_damaged_manifest_makes_way_for_a_whole_one(small_group: World) -> None:
    small_group.plan()
    for node in [*small_group.jobs, "merge"]:
        small_group.run(node)
    status = small_group.run("cleanup")
    (small_group.group / "merge_output.json").write_text("{")

    assert small_group.post("cleanup", status) == 0
    assert json.loads((small_group.group / "merge_output.json").read_text())["jobs"] == 3


def test_the_manifest_is_on_disk_before_and_its_name_after_the_rename(
    small_group: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """HTCondor does not sync transferred files: after a power cut the name could be that of an empty file."""
    small_group.plan()
    for node in [*small_group.jobs, "merge", "cleanup"]:
        small_group.run(node)
    done: list[tuple[str, str]] = []
    fsync, rename = os.fsync, os.replace

    def synced(handle: int) -> None:
        done.append(("sync", Path(os.readlink(f"/proc/self/fd/{handle}")).name))
        fsync(handle)

    def renamed(source: Path, target: Path) -> None:
        done.append(("rename", target.name))
        rename(source, target)

    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(os, "replace", renamed)
    monkeypatch.chdir(small_group.group)
    assert promote_manifest() == ""
    assert done == [
        ("sync", "merge_output.json.part"), ("rename", "merge_output.json"), ("sync", small_group.group.name),
    ]  # fmt: skip


# Every file the script may read, from the group's directory.
READ = [
    f"reports/{NODE}.report.json",
    f"reports/{NODE}.fjr.xml",
    "reports/cleanup.report.json",
    "reports/merge_output.json.part",
    "merge_output.json",
    "jobs.json",
    f"{NODE}.err",
    f"{NODE}.post.0.json",
    "group.dag.nodes.log",
    "raised.inc",
    "group.dag",
    "../sandbox.tar.gz",
    "../mg_000001/proc_000009.post.0.json",
]


@settings(max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    files=st.dictionaries(
        st.sampled_from(READ),
        st.binary(max_size=200) | st.sampled_from([b"{}", b"[]", b"null", b'{"schema": 1}', LOG.encode()]),
    ),
    reported=st.none() | st.sampled_from([0, 74, 7002, 8020, 50660, 99400]),
    arguments=st.lists(st.text(max_size=8) | st.sampled_from(["0", "1", "7.0", "-1002"]), max_size=9),
    node=st.sampled_from([NODE, "cleanup", "merge"]),
)
def test_any_leftovers_and_arguments_get_one_of_the_answers(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    files: dict[str, bytes],
    reported: int | None,
    arguments: list[str],
    node: str,
) -> None:
    for old in tmp_path.rglob("*.*"):
        old.unlink()
    group = tmp_path / "mg_000000"
    for place in (group / "reports", tmp_path / "mg_000001"):
        place.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        (group / name).write_bytes(content)
    if reported is not None:  # a whole report among the noise leads further into the script
        write_report(
            group / "reports" / f"{node}.report.json",
            NodeReport(node, "", "processing", "", 0, reported, "", 0.0, 1.0, 1.0, 1, 1, 1),
        )
        arguments = [str(process_exit(reported)), *arguments[1:]]
    monkeypatch.chdir(group)

    answers = (0, 1, 42, 43) if reported == 0 else (1, 42, 43)
    assert post_script.main([node, *arguments]) in answers


def test_a_bug_is_printed_and_the_node_tried_again(
    failed: World, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("a bug in the script")

    monkeypatch.setattr(post_script, "gather", broken)

    assert failed.post(NODE, 1) == 1
    assert "a bug in the script" in capsys.readouterr().err


def test_it_costs_little_and_runs_from_any_copied_folder(failed: World, tmp_path: Path) -> None:
    status = fail(failed, 8021)
    scripts = tmp_path / "elsewhere"
    copy_scripts(scripts)
    costs = []
    for attempt in range(5):
        command = [str(scripts / "post.sh"), NODE, str(status), str(attempt), "3", f"{attempt}.0", "0", "0"]
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(command, cwd=failed.group, env=failed.environment(), check=False)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        costs.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)

    assert failed.record(NODE, 0)["job"]["exit_code"] == 8021
    assert min(costs) < 0.15


def run_pre(world: World) -> int:
    return subprocess.run([str(SOURCE / "pre.sh"), NODE], cwd=world.group, check=False).returncode


def test_a_retry_waits_for_its_cool_off_without_sleeping(failed: World) -> None:
    assert run_pre(failed) == 0
    status, began = fail(failed, 60307), int(time.time())
    failed.post(NODE, status, retry=2, max_retries=3)
    not_before = int((failed.group / f"{NODE}.not_before").read_text())

    assert began + 200 < not_before <= time.time() + 240
    assert run_pre(failed) == 75
    (failed.group / f"{NODE}.not_before").write_text(f"{int(time.time()) - 1}\n")
    assert run_pre(failed) == 0


@pytest.mark.parametrize("noise", [b"", b"\n", b"soon\n", b"-1\n", b"1e9\n", b"\xff\x00\n", b"$(reboot)\n"])
def test_a_cool_off_that_cannot_be_read_delays_nothing(failed: World, noise: bytes) -> None:
    (failed.group / f"{NODE}.not_before").write_bytes(noise)

    assert run_pre(failed) == 0


def test_success_ends_the_cool_off(failed: World) -> None:
    failed.post(NODE, fail(failed, 60307))
    failed.post(NODE, fail(failed, 0), retry=1, job_id="8.0")

    assert not (failed.group / f"{NODE}.not_before").exists()
