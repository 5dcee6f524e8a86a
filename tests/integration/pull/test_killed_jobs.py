"""Jobs die and answers are lost at every call: each file counts once, storage has no leftovers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings as configured

from dags_app.models import Runner, RunnerOutput
from dags_app.pull.ending import expire_runners
from outputs_app.models import OutputFile
from tests.integration.factories import ago
from tests.integration.pull.factories import CERN, FNAL
from tests.integration.pull.worker_node import AnswerLost, Wms2, WorkerNode
from tests.waiting import until

pytestmark = pytest.mark.django_db(transaction=True)
CALLS = ("runners", "allocate", "record", "confirm")
JOBSCRIPT = """#!/bin/sh
while line=$(wms2-get-file); do
    set -- $line
    head -c {size} /dev/zero >"$(basename "$1").hist"
    echo "$1" >>processed-dids.txt
done
"""


@pytest.fixture
def node(worker_node: WorkerNode) -> WorkerNode:
    """Return a worker node for a round of a jobscript that processes all files."""
    return planned(worker_node)


def planned(node: WorkerNode, *, size: int = 10) -> WorkerNode:
    outputs = [{"pattern": "*.hist"}]
    node.workflow.payload_config = {"jobscript": JOBSCRIPT.format(size=size), "outputs": outputs}
    node.workflow.pull_jobs = 2
    node.workflow.save()
    node.plan()
    return node


def once(call: str, action: Callable[[], Any]) -> Callable[[str], None]:
    """Return a hook that runs the function at the first such call, whose answer is lost."""
    left = [call]

    def hook(name: str) -> None:
        if name in left:
            left.remove(name)
            action()
            raise AnswerLost

    return hook


def end_leases() -> None:
    """Expire the leases of all runners and run the sweep."""
    Runner.objects.update(heartbeat_at=ago(hours=1))
    expire_runners()


def on_storage() -> list[str]:
    """Return all files on the storages of both sites, complete or not."""
    roots = [Path(configured.SITE_STORAGE[site][0]) for site in (CERN, FNAL)]
    return sorted(
        f"/{path.relative_to(root)}" for root in roots for path in root.rglob("*") if path.is_file()
    )


def check_each_file_counts_once(node: WorkerNode) -> None:
    """Check that every file is processed once, and that storage has exactly the files of blocks."""
    files = list(node.workflow.input_files.values_list("lfn", "state"))
    assert files == [(lfn, "processed") for lfn, _ in files], node.log
    rows = OutputFile.objects.filter(block__dataset__workflow=node.workflow)
    assert on_storage() == sorted(rows.values_list("lfn", flat=True))
    processed = Counter(RunnerOutput.objects.filter(state="confirmed").values_list("name", flat=True))
    assert processed == {f"{Path(lfn).name}.hist": 1 for lfn, _ in files}


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("committed", [False, True])
def test_a_job_that_is_killed_at_a_call_loses_no_file(
    wms2: Wms2, node: WorkerNode, call: str, committed: bool
) -> None:
    setattr(wms2, "after" if committed else "before", once(call, node.kill))
    job = node.start()
    assert job.wait(timeout=300) != 0
    end_leases()
    node.run(node="proc_000001")
    check_each_file_counts_once(node)


def test_a_job_that_is_killed_in_mid_upload_leaves_nothing_on_storage(
    wms2: Wms2, worker_node: WorkerNode
) -> None:
    node = planned(worker_node, size=100_000_000)
    job = node.start()
    until(lambda: on_storage() or job.poll() is not None, why="an upload")
    node.kill()
    assert on_storage()
    end_leases()
    node.run(node="proc_000001", site=FNAL)
    assert set(RunnerOutput.objects.values_list("state", flat=True)) <= {"removed", "confirmed"}
    node.run(node="proc_000001", site=CERN)
    check_each_file_counts_once(node)


def test_every_call_with_a_lost_answer_is_repeated(wms2: Wms2, node: WorkerNode) -> None:
    lost = [once(call, lambda: None) for call in CALLS]

    def lose(name: str) -> None:
        for hook in lost:
            hook(name)

    wms2.after = lose
    assert node.run()["exit_code"] == 0, node.log
    check_each_file_counts_once(node)
    assert Counter(call for call, _ in wms2.answers)["confirm"] == 2


def test_a_job_whose_lease_has_ended_deletes_its_uploads(wms2: Wms2, node: WorkerNode) -> None:
    def end(call: str) -> None:
        if call == "confirm":
            end_leases()

    wms2.before = end
    report = node.run()
    assert ("confirm", 410) in wms2.answers
    assert "the runner has ended as lost" in report["error"]
    assert on_storage() == []
    wms2.before = lambda call: None
    node.run(node="proc_000001")
    check_each_file_counts_once(node)


def test_a_heartbeat_after_the_confirmation_does_not_end_the_job(
    wms2: Wms2, node: WorkerNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("requests_app.services.runners.starting.HEARTBEAT_SEC", 0.05)

    def wait_for_a_heartbeat(call: str) -> None:
        if call == "confirm":
            until(lambda: ("heartbeat", 410) in wms2.answers, seconds=60, why="a heartbeat")

    wms2.after = wait_for_a_heartbeat
    assert node.run()["exit_code"] == 0, node.log
    check_each_file_counts_once(node)


def test_a_heartbeat_that_is_refused_ends_the_job(
    wms2: Wms2, worker_node: WorkerNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("requests_app.services.runners.starting.HEARTBEAT_SEC", 0.05)
    hanging = "#!/bin/sh\nwms2-get-file\nsleep 100000\n"
    worker_node.workflow.payload_config = {"jobscript": hanging, "outputs": [{"pattern": "*"}]}
    worker_node.workflow.save()
    worker_node.plan()
    wms2.after = lambda call: end_leases() if call == "allocate" else None
    assert worker_node.run()["exit_code"] == 143


def refuse(site: str) -> None:
    """Make the storage of a site refuse outputs, by a file in place of the directories."""
    path = Path(configured.SITE_STORAGE[site][0]) / "store"
    path.write_text("not a directory")


def test_outputs_go_to_the_next_storage_if_one_refuses(wms2: Wms2, node: WorkerNode) -> None:
    refuse(CERN)
    assert node.run()["exit_code"] == 0, node.log
    outputs = OutputFile.objects.filter(block__dataset__workflow=node.workflow)
    assert set(outputs.values_list("block__rse", flat=True)) == {FNAL}


def test_the_files_are_returned_if_every_storage_refuses(wms2: Wms2, node: WorkerNode) -> None:
    refuse(CERN)
    refuse(FNAL)
    report = node.run()
    assert report["error"].startswith("StageOutFailure")
    assert set(node.workflow.input_files.values_list("state", flat=True)) == {"attempted"}
    assert Runner.objects.get().outcome == "failed"
