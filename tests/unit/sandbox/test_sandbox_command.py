"""A payload given as a command."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from sandbox.exitcodes import Fault, fault_of

if TYPE_CHECKING:
    from tests.job_world import World

NODE = "proc_000000"
PROGRAM = """
import json, os, sys
task = json.load(open(os.environ["WMS2_JOB"]))
lines = []
for one in task["inputs"]:
    lines += open(one["path"]).read().splitlines()[1:][one["first_event"]:one["last_event"] + 1]
plan = task["generate"]
if plan:
    for n in range(plan["first_event"], plan["last_event"] + 1):
        lumi = plan["first_lumi"] + (n - plan["numbering_from"]) // plan["events_per_lumi"]
        lines.append(f"{plan['run']} {lumi} {n} ab")
for out in task["outputs"]:
    with open(out["path"], "w") as handle:
        handle.write('{"format": "wms2-events", "version": 1}\\n' + "".join(line + "\\n" for line in lines))
"""
FAILED = (
    '<FrameworkJobReport><FrameworkError ExitStatus="8001" Type="CMSException">no record</FrameworkError>'
    "</FrameworkJobReport>"
)
CUT_OFF = FAILED[: FAILED.index("ord</FrameworkError>")]
KILLED = "import os; os.kill(os.getpid(), 9)"
SKIPPED = '<FrameworkJobReport><SkippedFile Pfn="x" Lfn="/store/data/a.root" /></FrameworkJobReport>'


@pytest.fixture
def world(world: World) -> World:
    world.forked = True
    return world


def run(world: World, program: str, **payload: Any) -> dict[str, Any]:
    world.payload = {"command": [sys.executable, "-S", "-c", program], **payload}
    world.plan()
    world.run(NODE)
    return world.report(NODE)


def write_fjr(document: str) -> str:
    return f"open('FrameworkJobReport.xml', 'w').write({document!r})\n"


@pytest.fixture
def one_job(world: World) -> World:
    world.add_job(NODE, [{**world.add_file("a", 30), "first_event": 5, "last_event": 24}])
    return world


def test_a_command_gets_the_number_of_its_threads(one_job: World) -> None:
    one_job.cores = 4
    check = 'import json, os; assert json.load(open(os.environ["WMS2_JOB"]))["threads"] == 4\n'

    assert run(one_job, check + PROGRAM)["exit_code"] == 0


def test_files_written_by_the_command_are_staged_out(one_job: World) -> None:
    one_job.datasets = ("/Toy/Run2026-Test-v1/RECO", "/Toy/Run2026-Test-v1/AOD")
    report = run(one_job, PROGRAM)

    assert (report["exit_code"], report["error"]) == (0, "")
    assert (report["events_read"], report["events_written"]) == (20, 20)
    assert [one["lfn"].rsplit("/", 1)[1] for one in report["outputs"]] == [f"{NODE}.0.root", f"{NODE}.1.root"]
    for one in report["outputs"]:
        assert [event.event for event in one_job.events_at(one["lfn"])] == list(range(6, 26))


def test_a_command_in_pilot_mode_covers_every_event_once(world: World) -> None:
    plan = {"first_event": 1, "last_event": 25, "first_lumi": 3, "events_per_lumi": 10, "run": 1}
    world.jobs[NODE] = {"files": [], "generate": plan, "mask": None, "events": 25}
    world.pilot = {"initial_events": 4, "tolerance": 0, "time_budget_sec": 600, "target_job_sec": 60}
    report = run(world, PROGRAM)

    events = world.events_at(report["outputs"][0]["lfn"])
    assert [(event.lumi, event.event) for event in events] == [(3 + (n - 1) // 10, n) for n in range(1, 26)]
    assert [one["events"] for one in report["pilot"]["iterations"]] == [4, 8, 13]


@pytest.mark.parametrize(
    ("program", "code", "message"),
    [
        ("import sys; sys.exit(3)", 3, "status 3"),
        ("import os; os.kill(os.getpid(), 9)", 137, "signal 9"),
        (write_fjr(FAILED) + "import sys; sys.exit(65)", 8001, "no record"),
        (write_fjr(FAILED) + PROGRAM, 8001, "no record"),
        (write_fjr("<html/>") + PROGRAM, 50115, "html"),
        (write_fjr("<html/>") + "import sys; sys.exit(4)", 4, "status 4"),
        (write_fjr(CUT_OFF) + PROGRAM, 50115, "ends before"),
        (write_fjr(CUT_OFF) + KILLED, 8001, "no rec"),
        (write_fjr("<FrameworkJobReport><File>") + KILLED, 137, "signal 9"),
        (write_fjr(SKIPPED) + PROGRAM, 8020, "skipped"),
        ("pass", 60302, "part0.0.root"),
        (PROGRAM + "open(task['outputs'][0]['path'], 'a').write('garbage')", 60302, "cut off"),
    ],
)
def test_a_failed_command_is_reported_with_its_message(
    one_job: World, program: str, code: int, message: str
) -> None:
    report = run(one_job, program)

    assert report["exit_code"] == code
    assert message in report["error"]
    assert report["outputs"] == []


def test_skipped_input_is_blamed(one_job: World) -> None:
    assert run(one_job, write_fjr(SKIPPED) + PROGRAM)["bad_inputs"] == ["/store/data/a.root"]


@pytest.mark.parametrize("command", ["echo hello", [], [""], [1], ["a\0b"]])
def test_a_command_that_is_no_list_of_words_is_refused(one_job: World, command: Any) -> None:
    one_job.payload = {"command": command}
    one_job.plan()
    one_job.run(NODE)

    assert one_job.report(NODE)["exit_code"] == 7002


@pytest.mark.parametrize(
    ("program", "code", "fault"),
    [
        ("./no-such-program", 7002, Fault.USER),
        ("bin/no-such-program", 7002, Fault.USER),
        ("no-such-program", 50110, Fault.SITE),
        ("/usr/bin/no-such-program", 50110, Fault.SITE),
    ],
)
def test_a_program_that_is_not_there_is_named(one_job: World, program: str, code: int, fault: Fault) -> None:
    """A missing program of the tarball is the requestor's fault; one of the node may exist on other nodes."""
    one_job.payload = {"command": [program]}
    one_job.plan()
    one_job.run(NODE)
    report = one_job.report(NODE)

    assert (report["exit_code"], fault_of(report["exit_code"])) == (code, fault)
    assert (report["node"], report["site"]) == (NODE, "T2_CH_CERN")
    assert f"{program}: No such file" in report["error"]


def test_the_command_gets_its_words_as_they_are(one_job: World, tmp_path: Path) -> None:
    mark = tmp_path / "shell"
    one_job.payload = {"command": [sys.executable, "-S", "-c", PROGRAM, f"; touch {mark}", "$(id)"]}
    one_job.plan()

    assert one_job.run(NODE) == 0
    assert not mark.exists()
