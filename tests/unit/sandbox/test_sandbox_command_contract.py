"""The kind `command`: $WMS2_JOB, $WMS2_REPORT, the environment, the sandbox and the merge tools."""

from __future__ import annotations

import hashlib
import io
import json
import sys
import tarfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from sandbox.manifest import read_group_manifest
from sandbox.merge_tools import TOOLS
from sandbox.usersandbox import BadTarball, check_tarball, unpack
from tests.job_world import NODE, RUN

if TYPE_CHECKING:
    from tests.job_world import World

MERGED = "/store/data/toy/00000000000000000000000000000000.root"
HEAD = "import json, os\ntask = json.load(open(os.environ['WMS2_JOB']))\nout = task['outputs'][0]['path']\n"
WRITE = HEAD + "open(out, 'w').write(task['node'] + '\\n')\n"
REPORT = "json.dump({'schema': 1, **%r}, open(os.environ['WMS2_REPORT'], 'w'))\n"
CONCAT = {"merge": {"tool": "concat"}}


@pytest.fixture
def world(world: World) -> World:
    world.forked = True
    return world


def configure(world: World, program: str, **payload: Any) -> None:
    world.payload = {"kind": "command", "command": [sys.executable, "-S", "-c", program], **CONCAT, **payload}
    world.plan()


def run(world: World, program: str, **payload: Any) -> dict[str, Any]:
    configure(world, program, **payload)
    world.run(NODE)
    return world.report(NODE)


def generate_jobs(world: World, jobs: int, events: int = 10) -> None:
    for number in range(jobs):
        plan = {
            "first_event": 1 + number * events, "last_event": (number + 1) * events, "first_lumi": 1,
            "events_per_lumi": events, "run": 1, "numbering_from": 1,
        }  # fmt: skip
        world.jobs[f"proc_{number:06d}"] = {"files": [], "generate": plan, "mask": None, "events": events}


def run_group(world: World) -> Any:
    for node in [*world.jobs, "merge", "cleanup"]:
        status = world.run(node)
        assert world.post(node, status) == 0, world.report(node)["error"]
    return read_group_manifest(world.group / "merge_output.json")


def test_the_job_file_describes_the_work(world: World) -> None:
    world.cores = 2
    file = {**world.add_file("a", 30), "first_event": 5, "last_event": 24, "mask": {str(RUN): [[1, 2]]}}
    world.add_job(NODE, [file])
    written = world.root / "task.json"
    run(world, WRITE + f"json.dump(task, open({str(written)!r}, 'w'))")
    task = json.loads(written.read_text())

    (source,) = task["inputs"]
    assert (source["lfn"], source["events"]) == ("/store/data/a.root", 30)
    assert (source["first_event"], source["last_event"]) == (5, 24)
    assert source["mask"] == {str(RUN): [[1, 2]]}
    assert Path(source["path"]).read_bytes() == Path(f"{world.storage}/store/data/a.root").read_bytes()
    assert source["url"].endswith("/store/data/a.root")
    assert (task["schema"], task["node"], task["threads"], task["attempt"]) == (1, NODE, 2, 0)
    assert [one["dataset"] for one in task["outputs"]] == list(world.datasets)
    assert 1 <= task["seed"] <= 900_000_000


def test_the_seed_is_the_same_in_every_attempt_and_differs_between_jobs(world: World) -> None:
    generate_jobs(world, 2)
    seeds = []
    for node, attempt in (("proc_000000", 0), ("proc_000000", 1), ("proc_000001", 0)):
        written = world.root / "task.json"
        world.attempt = attempt
        configure(world, WRITE + f"json.dump(task, open({str(written)!r}, 'w'))")
        assert world.run(node) == 0
        seeds.append(json.loads(written.read_text())["seed"])

    assert seeds[0] == seeds[1] != seeds[2]


def test_inputs_may_be_left_to_the_program(world: World) -> None:
    world.add_job(NODE, [world.add_file("a", 10)])
    report = run(world, WRITE + "assert task['inputs'][0]['path'] is None", inputs="stream")

    assert (report["exit_code"], report["events_read"]) == (0, 10)


def test_without_a_report_every_planned_event_was_read_and_written(world: World) -> None:
    generate_jobs(world, 1)
    report = run(world, WRITE)

    (output,) = report["outputs"]
    assert (report["events_read"], report["events_written"], output["events"]) == (10, 10, 10)
    assert output["lumis"] == {"1": [[1, 1]]}


def test_a_report_lists_the_events_read_and_written(world: World) -> None:
    world.add_job(NODE, [world.add_file("a", 30)])
    reported = {
        "inputs": [{"lfn": "/store/data/a.root", "events": 25}],
        "outputs": [{"events": 7, "lumi_events": {str(RUN): [[1, 2, 3], [3, 3, 1]]}}],
    }
    report = run(world, WRITE + REPORT % reported)

    (output,) = report["outputs"]
    assert report["inputs"] == [{"lfn": "/store/data/a.root", "events": 25}]
    assert (report["events_read"], output["events"], output["lumis"]) == (25, 7, {str(RUN): [[1, 3]]})


@pytest.mark.parametrize(
    ("reported", "ending", "code", "message"),
    [
        ({"exit_code": 8001, "error": "no conditions"}, "", 8001, "no conditions"),
        ({"error": "bad luck"}, "raise SystemExit(7)", 7, "bad luck"),
        ({"bad_inputs": ["/store/data/a.root"]}, "", 8020, "/store/data/a.root"),
        ({"outputs": [{"events": -1}]}, "", 50115, "events"),
        ({"outputs": "many"}, "", 50115, "outputs"),
    ],
)
def test_a_report_of_a_failure_is_accepted(
    world: World, reported: dict[str, Any], ending: str, code: int, message: str
) -> None:
    world.add_job(NODE, [world.add_file("a", 10)])
    report = run(world, WRITE + REPORT % reported + ending)

    assert report["exit_code"] == code
    assert message in report["error"]


def test_a_report_that_the_file_contradicts_is_refused(world: World) -> None:
    world.add_job(NODE, [world.add_file("a", 10)])
    copy = HEAD + "open(out, 'w').write(open(task['inputs'][0]['path']).read())\n"
    merge = {"tool": "events"}
    good = run(world, copy + REPORT % {"outputs": [{"events": 10}]}, merge=merge)
    bad = run(world, copy + REPORT % {"outputs": [{"events": 9}]}, merge=merge)

    assert good["exit_code"] == 0
    assert (bad["exit_code"], "claimed 9, the file has 10" in bad["error"]) == (99310, True)


def test_the_environment_of_the_configuration_reaches_the_program(world: World) -> None:
    generate_jobs(world, 1)
    check = "assert os.environ['COLOUR'] == 'a b; c'"

    assert run(world, WRITE + check, environment={"COLOUR": "a b; c"})["exit_code"] == 0


@pytest.mark.parametrize(
    "environment",
    [{"WMS2_JOB": "x"}, {"_CONDOR_CREDS": "x"}, {"A B": "x"}, {"A": 1}, {"A": "\0"}, {"9A": "x"}, "A=1",
     {"BEARER_TOKEN_FILE": "x"}],
)  # fmt: skip
def test_other_variables_are_refused_by_name(world: World, environment: Any) -> None:
    generate_jobs(world, 1)
    report = run(world, WRITE, environment=environment)

    assert report["exit_code"] == 7002
    assert "environment" in report["error"]


def tarball(*members: tuple[str, bytes | str, int], kind: bytes = b"") -> bytes:
    """Return a tarball of (name, content, mode); a member of another kind links to its content."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        for name, content, mode in members:
            entry = tarfile.TarInfo(name)
            entry.mode = mode
            if isinstance(content, bytes):
                entry.size = len(content)
                archive.addfile(entry, io.BytesIO(content))
            else:
                entry.type, entry.linkname = kind, content
                archive.addfile(entry)
    return buffer.getvalue()


PROGRAM = f"#!/bin/sh\nexec {sys.executable} -S program/main.py\n".encode()
GOOD = tarball(("run", PROGRAM, 0o755), ("program/main.py", WRITE.encode(), 0o644))


def ship(world: World, data: bytes, monkeypatch: pytest.MonkeyPatch) -> str:
    """Give the jobs a user sandbox, as the DAG's directory would; return its digest."""
    scratch = type(world).scratch

    def with_sandbox(self: World, node: str) -> Path:
        place = scratch(self, node)
        (place / "user_sandbox.tar.gz").write_bytes(data)
        return place

    monkeypatch.setattr(type(world), "scratch", with_sandbox)
    return hashlib.sha256(data).hexdigest()


def test_a_program_comes_with_a_sandbox(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    generate_jobs(world, 1)
    digest = ship(world, GOOD, monkeypatch)
    world.payload = {"command": ["./run"], "sandbox_sha256": digest, **CONCAT}
    world.plan()
    world.run(NODE)

    assert (world.report(NODE)["exit_code"], world.report(NODE)["error"]) == (0, "")


BAD = {
    "not a tarball": (b"no tarball at all", "not a complete tarball"),
    "cut off": (GOOD[: len(GOOD) // 2], "not a complete tarball"),
    "absolute path": (tarball(("/etc/cron.d/x", b"x", 0o644)), "/etc/cron.d/x"),
    "parent directory": (tarball(("../x", b"x", 0o644)), "../x"),
    "inner parent directory": (tarball(("a/../../x", b"x", 0o644)), "a/../../x"),
    "symbolic link": (tarball(("link", "/etc/passwd", 0o777), kind=tarfile.SYMTYPE), "link"),
    "hard link": (tarball(("link", "run", 0o777), kind=tarfile.LNKTYPE), "link"),
    "device": (tarball(("dev", "", 0o666), kind=tarfile.CHRTYPE), "device"),
    "pipe": (tarball(("pipe", "", 0o666), kind=tarfile.FIFOTYPE), "device"),
    "nothing": (tarball(), "no files"),
}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_sandbox_is_refused_by_wms2_and_by_the_job(
    world: World, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    data, message = BAD[name]
    with pytest.raises(BadTarball, match=message):
        check_tarball(io.BytesIO(data))
    generate_jobs(world, 1)
    digest = ship(world, data, monkeypatch)
    world.payload = {"command": ["./run"], "sandbox_sha256": digest, **CONCAT}
    world.plan()
    world.run(NODE)

    report = world.report(NODE)
    assert report["exit_code"] == 7002
    assert message in report["error"]


def test_a_file_twice_is_not_overwritten(tmp_path: Path) -> None:
    with pytest.raises(BadTarball, match="twice"):
        unpack(io.BytesIO(tarball(("a", b"1", 0o644), ("a", b"2", 0o644))), tmp_path)
    assert (tmp_path / "a").read_bytes() == b"1"


@pytest.mark.parametrize("arrives", [True, False])
def test_a_sandbox_that_did_not_arrive_whole_is_sent_again(
    world: World, monkeypatch: pytest.MonkeyPatch, arrives: bool
) -> None:
    generate_jobs(world, 1)
    if arrives:
        ship(world, GOOD[:-1], monkeypatch)
    digest = hashlib.sha256(GOOD).hexdigest()
    world.payload = {"command": ["./run"], "sandbox_sha256": digest, **CONCAT}
    world.plan()
    world.run(NODE)

    report = world.report(NODE)
    assert report["exit_code"] == 74
    assert "user_sandbox.tar.gz" in report["error"]
    assert world.post(NODE, 74) == 1, "another attempt"


def test_concat_joins_the_files_of_a_group_in_node_order(world: World) -> None:
    generate_jobs(world, 3)
    configure(world, WRITE)
    manifest = run_group(world)

    text = Path(f"{world.storage}{MERGED}").read_text()
    assert text.split() == [f"proc_{number:06d}" for number in range(3)]
    (output,) = manifest.outputs
    assert (output.events, output.lumis, output.lumi_events) == (30, {1: [[1, 3]]}, {})


def test_copy_takes_one_file_and_refuses_several(world: World) -> None:
    generate_jobs(world, 1)
    configure(world, WRITE, merge={"tool": "copy"})
    run_group(world)
    assert Path(f"{world.storage}{MERGED}").read_text() == f"{NODE}\n"

    generate_jobs(world, 2)
    configure(world, WRITE, merge={"tool": "copy"})
    for node in world.jobs:
        world.run(node)
    world.run("merge")
    assert world.report("merge")["exit_code"] == 7002
    assert "copy" in world.report("merge")["error"]


def test_a_pilot_whose_files_cannot_be_joined_has_one_window(world: World) -> None:
    generate_jobs(world, 1, events=50)
    world.pilot = {"initial_events": 5, "tolerance": 0, "time_budget_sec": 600, "target_job_sec": 60}
    report = run(world, WRITE, merge={"tool": "copy"})

    assert report["exit_code"] == 0
    assert [one["events"] for one in report["pilot"]["iterations"]] == [50]


JOIN = (
    "import json, os\ntask = json.load(open(os.environ['WMS2_MERGE']))\n"
    "with open(task['output'], 'w') as out:\n"
    "    out.write('merged\\n')\n"
    "    for path in task['inputs']:\n"
    "        out.write(open(path).read())\n"
)


def test_a_command_of_the_request_joins_the_files(world: World) -> None:
    generate_jobs(world, 2)
    configure(world, WRITE, merge={"tool": "command", "command": [sys.executable, "-S", "-c", JOIN]})
    run_group(world)

    text = Path(f"{world.storage}{MERGED}").read_text()
    assert text.split() == ["merged", "proc_000000", "proc_000001"]


@pytest.mark.parametrize(
    ("program", "code"), [("raise SystemExit(9)", 9), ("pass", 60302)], ids=["fails", "writes nothing"]
)
def test_a_failing_merge_command_is_reported(world: World, program: str, code: int) -> None:
    generate_jobs(world, 2)
    configure(world, WRITE, merge={"tool": "command", "command": [sys.executable, "-S", "-c", program]})
    for node in [*world.jobs, "merge"]:
        world.run(node)

    assert world.report("merge")["exit_code"] == code


@pytest.mark.parametrize(
    ("payload", "field"),
    [
        ({"merge": {"tool": "zip"}}, "merge: tool"),
        ({"merge": {"tool": "command"}}, "merge: command"),
        ({"merge": "concat"}, "merge"),
        ({"inputs": "guess"}, "inputs"),
        ({"sandbox_sha256": "abc"}, "sandbox_sha256"),
        ({"kind": "other"}, "kind"),
    ],
)
def test_a_configuration_that_is_not_understood_is_refused_by_field(
    world: World, payload: dict[str, Any], field: str
) -> None:
    generate_jobs(world, 1)
    report = run(world, WRITE, **payload)

    assert report["exit_code"] == 7002
    assert field in report["error"]


def test_the_merge_tools_are_these() -> None:
    assert {tool.name for tool in TOOLS} >= {"root", "concat", "copy", "command"}


def test_files_that_are_not_root_files_need_another_merge_tool(world: World) -> None:
    generate_jobs(world, 1)
    report = run(world, WRITE, merge={"tool": "root"})

    assert report["exit_code"] == 60302
    assert "not-root" in report["error"]
