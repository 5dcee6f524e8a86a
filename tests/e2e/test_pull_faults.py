"""Pull requests under faults, and streaming through the steps of a chain, on the running stack."""

from __future__ import annotations

import os
import signal
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Any

from django.core.management import call_command
from django.utils import timezone

from dags_app.adapters import rucio
from dags_app.models import Runner, Workflow
from dags_app.planning.names import dataset_directory
from lab.seed.datasets import many_files_dataset
from lab.seed.formats import TOY
from lab.seed.storage import Laboratory, Storage, store_dataset
from outputs_app.models import OutputFile
from tests.e2e.conftest import Json, Stack
from tests.e2e.test_chains import act, finished
from tests.waiting import until

FNAL, CERN, DESY = "T1_US_FNAL", "T2_CH_CERN", "T2_DE_DESY"
FILES, KILLED = 200, "proc_000000"
# Up to five files per job. One job in ten fails, or is killed while its large first output is uploaded.
JOBSCRIPT = """#!/bin/sh
node=$(sed -n 's/^CMS_NodeName = "\\(.*\\)"/\\1/p' "$_CONDOR_JOB_AD")
size=100
case "$WMS2_ATTEMPT $node" in
    "0 proc_000000") size=400000000 ;;
    "0 "*[1-9]7) failing=yes ;;  # never four of the first twenty, which would hold the request
esac
for number in 1 2 3 4 5; do
    line=$(wms2-get-file --seconds-needed 10) || break
    set -- $line
    name=$(basename "$1")
    head -c "$size" /dev/zero >"$name" || exit 2
    echo '{"events": 10, "lumis": {"1": [[1, 1]]}}' >"$name.json"
    echo "$1" >>processed-dids.txt
    size=100
done
test -z "$failing"
"""


def document(stack: Stack, suffix: str) -> Json:
    """Return a request that reads 200 files at three sites."""
    data = many_files_dataset(suffix)
    Laboratory(stack.cms_url).add("datasets", store_dataset(data, Storage(stack.storage_prefix), TOY))
    base = stack.seed(suffix)[0]
    return base | {
        "RequestName": f"PullFaults_{suffix}",
        "InputDataset": data.name,
        "OutputDatasets": [f"/MinimumBias/Run2024C-Faults{suffix}-v1/AOD"],
        "SiteWhitelist": [FNAL, CERN, DESY],
        "PayloadConfig": {"jobscript": JOBSCRIPT},
        "allocation": "pull",
        "pull_jobs": 40,
        "max_distance": 100,
    }


def refuse_uploads(stack: Stack, document: Json, site: str) -> None:
    """Make the storage of a site refuse outputs of the request, by a file in place of their directories."""
    for dataset in document["OutputDatasets"]:
        directory = dataset_directory(document["MergedLFNBase"], dataset)
        path = Path(stack.storage_prefix.replace("{site}", site) + directory)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("not a directory")


def ban_on_the_way(stack: Stack, name: str, site: str) -> datetime:
    """Ban a site for the request while its jobs run; return a time after the start of the ban."""
    until(lambda: Runner.objects.filter(workflow__request_name=name).exists(), why="a runner")
    stack.post(f"sites/{site}/ban", {"reason": "e2e", "request_name": name}, expect=200)
    return timezone.now()


def kill_in_mid_upload(workflow: Workflow, node: str) -> Runner:
    """Kill the job of the node once it has recorded its outputs; return its runner."""
    recorded = Runner.objects.filter(workflow=workflow, node=node, state="recorded")
    runner: Runner = until(lambda: recorded.first(), why=f"outputs of {node}")
    for process in processes(workflow, node):
        with suppress(ProcessLookupError):
            os.kill(process, signal.SIGKILL)
    return runner


def processes(workflow: Workflow, node: str) -> Iterator[int]:
    """Yield the processes of a running job, which work in its directory."""
    for directory in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            ad = (directory / "cwd" / ".job.ad").read_text(errors="replace")
            if f'CMS_WorkflowID = "{workflow.pk}"' in ad and f'CMS_NodeName = "{node}"' in ad:
                yield int(directory.name)


def test_every_file_counts_once_under_faults(stack: Stack, suffix: str) -> None:
    """A tenth of the jobs fails, one is killed in mid-upload, one storage refuses, one site gets banned."""
    given = document(stack, suffix)
    refuse_uploads(stack, given, DESY)
    name = stack.post("requests", given)["request_name"]
    banned_at = ban_on_the_way(stack, name, FNAL)
    workflow = Workflow.objects.get(request_name=name)
    killed = kill_in_mid_upload(workflow, KILLED)
    stack.wait_for(name, "completed")
    killed.refresh_from_db()
    assert (killed.outcome, killed.files_processed) == ("lost", 0)
    late = Runner.objects.filter(workflow=workflow, site=FNAL, started_at__gt=banned_at)
    assert not late.exists(), "a runner began at the banned site"
    assert Runner.objects.filter(workflow=workflow, outcome="failed").exists()
    _check_files(stack, workflow)


def _check_files(stack: Stack, workflow: Workflow) -> None:
    """Check that ledger, blocks, storages, DBS and Rucio agree on every file."""
    ledger = stack.get(f"requests/{workflow.request_name}/ledger")["pull"]
    assert {word: count for word, count in ledger.items() if count} == {"processed": FILES}
    lfns = set(workflow.input_files.values_list("lfn", flat=True))
    (dataset,) = workflow.output_datasets
    rows = list(OutputFile.objects.filter(block__dataset__dataset_name=dataset).select_related("block"))
    parents = Counter(lfn for row in rows for lfn in row.parents)
    assert set(parents) == lfns
    assert len(rows) == FILES
    assert {row.block.site for row in rows} <= {FNAL, CERN}
    assert {file.lfn: file.events for file in stack.lab_files(dataset)} == {row.lfn: 10 for row in rows}
    replicas = rucio().replicas([row.lfn for row in rows])
    assert all(row.block.rse in replicas[row.lfn] for row in rows)
    call_command("reconcile", workflow.request_name)  # raises if DBS or Rucio differ from the tables
    stored = {f"{path.name}" for site in (FNAL, CERN) for path in stored_files(stack, workflow, site)}
    assert stored == {row.lfn.rpartition("/")[2] for row in rows}, "a leftover on storage"


def stored_files(stack: Stack, workflow: Workflow, site: str) -> list[Path]:
    (dataset,) = workflow.output_datasets
    directory = dataset_directory(workflow.merged_lfn_base, dataset)
    place = Path(stack.storage_prefix.replace("{site}", site) + directory)
    return [path for path in place.rglob("*") if path.is_file()]


STREAMED = """
cwlVersion: v1.2
class: Workflow
$namespaces: {{wms2: "https://wms2.example.org/cwl#"}}
inputs: {{data: Directory}}
steps:
  first:
    in: {{data: data}}
    out: [out]
    run: {first}
  second:
    in: {{data: first/out}}
    out: [out]
    run: {second}
outputs: {{result: {{type: Directory, outputSource: second/out}}}}
"""
STEP = """
      class: Operation
      inputs: {{data: Directory}}
      outputs: {{out: Directory}}
      hints:
        wms2:Step:
          tier: USER
          splitting: {{algo: FileBased}}
          {start}
          request:
            allocation: pull
            urgent: true
            pull_jobs: 4
            max_distance: 100
            memory_mb: 100
            time_per_event_sec: 0.01
            size_per_event_kb: 1
            payload_config:
              jobscript: |
{script}
"""
# One file per job; all but the first wait until the hold is lifted
COPY = """#!/bin/sh
line=\\$(wms2-get-file --seconds-needed 10) || exit 0
set -- $line
{wait}
name=\\$(basename "$1")
echo "$1" >"$name"
echo '{{"events": 1, "lumis": {{"1": [[1, 1]]}}}}' >"$name.json"
echo "$1" >processed-dids.txt
"""
WAIT = "mkdir {hold}/first 2>/dev/null || while [ -e {hold}/wait ]; do sleep 1; done"


def step(*, start: str = "", wait: str = "") -> str:
    script = "".join(f"                {line}\n" for line in COPY.format(wait=wait).splitlines())
    return STEP.format(start=start, script=script)


def test_two_pull_steps_of_a_chain_stream(stack: Stack, suffix: str, tmp_path: Path) -> None:
    """The second step processes a file while jobs of the first one still work."""
    hold = tmp_path / "hold"
    for directory in (*hold.parents, hold):
        directory.mkdir(exist_ok=True)
        if directory.is_relative_to(tmp_path.parent.parent):
            directory.chmod(0o777)
    (hold / "wait").touch()
    name, dataset = f"stream{suffix}", str(stack.seed(suffix)[2]["InputDataset"])
    text = STREAMED.format(first=step(wait=WAIT.format(hold=hold)), second=step(start="start: first_file"))
    load: Json = {"name": name, "mask": f"^{dataset}$", "document": text}
    act(stack, "templates", load, expect=201)
    act(stack, f"templates/{name}/1/activate", {})
    number = stack.post("datasets", {"uid": f"s{suffix}", "name": dataset})["chains"][0]
    workflows = until(lambda: requests_of(stack, number), why="both requests")
    first, second = workflows["first"], workflows["second"]
    until(lambda: second.input_files.filter(state="processed").exists(), why="a file of the second step")
    assert first.input_files.filter(state="processed").count() == 1
    assert stack.get(f"requests/{first.request_name}")["status"] == "active"
    (hold / "wait").unlink()
    until(lambda: finished(stack, number), seconds=1200, why=f"chain {number}")
    files = set(first.input_files.values_list("lfn", flat=True))
    made = {row.lfn: row.parents for row in outputs_of(first)}
    assert Counter(lfn for parents in made.values() for lfn in parents) == dict.fromkeys(files, 1)
    taken = Counter(lfn for row in outputs_of(second) for lfn in row.parents)
    assert taken == dict.fromkeys(made, 1)


def requests_of(stack: Stack, number: int) -> dict[str, Workflow] | None:
    """Return the workflows of the chain's steps when both have one."""
    steps: list[Any] = stack.get(f"chains/{number}")["steps"]
    names = {one["request_name"]: one["name"] for one in steps}
    found = Workflow.objects.filter(request_name__in=names)
    return {names[one.request_name]: one for one in found} if len(found) == len(steps) else None


def outputs_of(workflow: Workflow) -> list[OutputFile]:
    return list(OutputFile.objects.filter(block__dataset__workflow=workflow))
