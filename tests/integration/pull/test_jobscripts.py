"""Jobscripts of every kind, run by the real wrapper against WMS2 over HTTP."""

from __future__ import annotations

import re
import sys
from typing import Any

import pytest

from dags_app.models import Runner
from outputs_app.models import OutputFile
from tests.integration.pull.worker_node import WorkerNode

pytestmark = pytest.mark.django_db(transaction=True)
OUTPUTS = [{"pattern": "*.hist"}]
ONE = """#!/bin/sh
line=$(wms2-get-file --seconds-needed 600) || exit 7
set -- $line
echo "$1 $2 $3" >a.hist
echo "$1" >processed-dids.txt
"""
MANY = """#!/bin/sh
while line=$(wms2-get-file); do
    set -- $line
    echo "$1" >"$(basename "$1").hist"
    echo "$2" >>processed-pfns.txt
done
test "$(wms2-allocated-files | wc -l)" -eq 3
"""
# As written for justIN: its programs, variables and lists, without those of WMS2
JUSTIN = """#!/bin/bash
did_pfn_rse=$($JUSTIN_PATH/justin-get-file)
if [ "$did_pfn_rse" == "" ]; then
    echo "Nothing to process - exit jobscript"
    exit 0
fi
pfn=$(echo $did_pfn_rse | cut -f2 -d' ')
echo "$did_pfn_rse" | cut -f1 -d' ' >>all-input-dids.txt
echo "$JUSTIN_WORKFLOW_ID $JUSTIN_STAGE_ID $pfn" >result.hist
[ "$("$JUSTIN_PATH/justin-allocated-files" | wc -l)" == 1 ] || exit 9
echo "$pfn" >justin-processed-pfns.txt
exit 0
"""
TIME_OVER = """#!/bin/sh
wms2-get-file --seconds-needed 100000 && exit 9
echo nothing >a.hist
"""
NONE_PROCESSED = """#!/bin/sh
wms2-get-file && wms2-get-file
echo nothing >a.hist
echo /store/data/other.root >processed-dids.txt
"""
FAILING = """#!/bin/sh
set -- $(wms2-get-file)
echo "$1" >processed-dids.txt
echo half >a.hist
exit 3
"""
HANGING = "#!/bin/sh\nwms2-get-file\nsleep 100000 & sleep 100000\n"
FORKING = """#!/bin/sh
wms2-get-file
for number in 1 2 3 4 5 6 7 8; do (setsid sleep 100000 &) ; done
exit 5
"""
KILLING = "#!/bin/sh\nwms2-get-file\nkill -9 $PPID\nkill -9 -1\n"
NO_INTERPRETER = "#!/nowhere/python\nprint(1)\n"
HUGE = """#!/usr/bin/env python3
import os, subprocess
did = subprocess.check_output(["wms2-get-file"], text=True).split()[0]
open("processed-dids.txt", "w").write(did)
for number in range(1001):
    open(f"{number}.hist", "w").close()
"""
FULL = """#!/bin/sh
set -- $(wms2-get-file)
echo "$1" >processed-dids.txt
ulimit -f 1  # as a disk of this size
head -c 100000 /dev/zero >a.hist
"""
ODD_NAME = """#!/bin/sh
set -- $(wms2-get-file)
echo "$1" >processed-dids.txt
echo x >'a b.hist'
"""

# Name, jobscript, members of payload_config, attempted and processed files, exit code, outcome
KINDS: list[tuple[str, str, dict[str, Any], tuple[int, int], int, str]] = [
    ("one file", ONE, {}, (0, 1), 0, "processed"),
    ("many files", MANY, {}, (0, 3), 0, "processed"),
    ("of justIN", JUSTIN, {}, (0, 1), 0, "processed"),
    ("time over", TIME_OVER, {}, (0, 0), 0, "late"),
    ("none processed", NONE_PROCESSED, {}, (2, 0), 0, "unprocessed"),
    ("failing", FAILING, {}, (1, 0), 3, "failed"),
    ("hanging", HANGING, {"max_wall_time_sec": 5}, (1, 0), 50664, "failed"),
    ("forking", FORKING, {}, (1, 0), 5, "failed"),
    ("killing", KILLING, {}, (1, 0), 1, "failed"),
    ("without its interpreter", NO_INTERPRETER, {}, (0, 0), 50110, "failed"),
    ("with too many outputs", HUGE, {}, (1, 0), 99313, "failed"),
    ("that fills its disk", FULL, {}, (1, 0), 153, "failed"),
    ("with an odd name", ODD_NAME, {}, (1, 0), 99313, "failed"),
]


@pytest.mark.parametrize(
    ("script", "payload", "files", "code", "outcome"),
    [row[1:] for row in KINDS],
    ids=[row[0] for row in KINDS],
)
def test_a_jobscript_of_each_kind(
    worker_node: WorkerNode,
    script: str,
    payload: dict[str, Any],
    files: tuple[int, int],
    code: int,
    outcome: str,
) -> None:
    report = run(worker_node, script, **payload)
    attempted, processed = files
    wanted = {"attempted": attempted, "processed": processed, "fresh": 3 - attempted - processed}
    assert counts(worker_node) == {state: number for state, number in wanted.items() if number}, (
        worker_node.log
    )
    assert (report["exit_code"], Runner.objects.get().outcome) == (code, outcome), worker_node.log
    outputs = OutputFile.objects.filter(block__dataset__workflow=worker_node.workflow)
    assert outputs.exists() is bool(processed)


def run(node: WorkerNode, script: str, **payload: Any) -> dict[str, Any]:
    """Run one job with this jobscript; return its report."""
    node.workflow.payload_config = {"jobscript": script, "outputs": OUTPUTS, **payload}
    node.workflow.save()
    node.plan()
    return node.run()


def counts(node: WorkerNode) -> dict[str, int]:
    found: dict[str, int] = {}
    for state in node.workflow.input_files.values_list("state", flat=True):
        found[state] = found.get(state, 0) + 1
    return found


COPY = """
import json, os, shutil
task = json.load(open(os.environ["WMS2_JOB"]))
shutil.copy(task["inputs"][0]["path"], task["outputs"][0]["path"])
"""


def test_the_payload_of_the_request_runs_on_each_file_without_a_jobscript(worker_node: WorkerNode) -> None:
    for file in worker_node.workflow.input_files.all():
        worker_node.store(file, b"input of a job")
    worker_node.workflow.payload_config = {
        "kind": "command", "command": [sys.executable, "-c", COPY], "merge": {"tool": "concat"},
    }  # fmt: skip
    worker_node.workflow.save()
    worker_node.plan()
    report = worker_node.run()
    assert report["exit_code"] == 0, worker_node.log
    assert counts(worker_node) == {"processed": 3}


SPY = """#!/bin/sh
wms2-get-file >/dev/null
cat /proc/[0-9]*/cmdline /proc/[0-9]*/environ 2>/dev/null | tr '\\0' '\\n'
cat ../../jobs.json ../../*/jobs.json 2>&1
grep -r wms2j. ../.. 2>/dev/null
exit 1
"""


def test_a_jobscript_sees_the_token_for_files_only(worker_node: WorkerNode) -> None:
    run(worker_node, SPY)
    seen = set(re.findall(r"wms2j\.([a-z]+)\.", worker_node.log))
    assert seen == {"files"}, worker_node.log
