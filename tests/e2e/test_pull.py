"""Pull requests on the running stack: jobs request their files, and every file is processed once."""

from __future__ import annotations

from collections import Counter
from typing import Any

from dags_app.models import InputFile, Runner, RunnerOutput, Workflow
from dags_app.states import RoundKind
from outputs_app.models import OutputFile
from tests.e2e.conftest import Stack

Json = dict[str, Any]
# Two files per job, by the names that justIN gives its programs and lists; the second job of a node fails
JOBSCRIPT = """#!/bin/sh
for number in 1 2; do
    line=$("$JUSTIN_PATH/justin-get-file" --seconds-needed 10) || break
    set -- $line
    name=$(basename "$1")
    echo "$JUSTIN_WORKFLOW_ID $1 $3" >"$name.txt"
    [ "$number" = 1 ] && printf '\\n%s\\r\\n' "$1" >>justin-processed-dids.txt
    [ "$number" = 2 ] && echo "$2" >>processed-pfns.txt
done
test "$(wms2-allocated-files | wc -l)" -le 2
"""


def pull(document: Json, mark: str, **changes: Any) -> Json:
    """Return the document as a pull request with new names of request and datasets."""
    names = [name.replace("-v1/", f"{mark}-v1/") for name in document["OutputDatasets"]]
    own = {"RequestName": f"{document['RequestName']}_{mark}", "OutputDatasets": names, "allocation": "pull"}
    return {**document, **own, "pull_jobs": 4, **changes}


def submitted(stack: Stack, *documents: Json) -> list[Workflow]:
    """Run the requests at the same time; return their workflows when all are completed."""
    names = [stack.post("requests", document)["request_name"] for document in documents]
    for name in names:
        stack.wait_for(name, "completed")
    return [Workflow.objects.get(request_name=name) for name in names]


def parents_of(dataset: str) -> Counter[str]:
    rows = OutputFile.objects.filter(block__dataset__dataset_name=dataset)
    return Counter(lfn for parents in rows.values_list("parents", flat=True) for lfn in parents)


def outcomes(workflow: Workflow) -> set[str]:
    return set(Runner.objects.filter(workflow=workflow).values_list("outcome", flat=True))


def test_requests_of_every_kind_process_each_file_once(stack: Stack, suffix: str) -> None:
    data, generated, urgent = stack.seed(suffix)
    failing = {"toy": {"fail_exit_code": 8001, "fail_probability": 0.1, "fail_seed": 3}}
    first = pull(data, "Pull", PayloadConfig={"kind": "toy", **failing}, max_distance=100)
    plain, counters, scripted = submitted(
        stack,
        first,
        pull(
            generated,
            "Count",
            FilterEfficiency=1.0,
            PayloadConfig={"kind": "toy"},
            RequestNumEvents=600,
            EventsPerJob=100,
            EventsPerLumi=100,
        ),
        pull(
            urgent,
            "Script",
            PayloadConfig={"jobscript": JOBSCRIPT, "outputs": [{"pattern": "*.txt"}]},
            SplittingAlgo="FileBased",
        ),
    )
    _check_plain(stack, plain)
    _check_counters(counters)
    _check_script(scripted)


def _check_plain(stack: Stack, workflow: Workflow) -> None:
    lfns = set(InputFile.objects.filter(workflow=workflow).values_list("lfn", flat=True))
    assert set(workflow.rounds.values_list("kind", flat=True)) == {RoundKind.PULL}
    assert set(workflow.input_files.values_list("state", flat=True)) == {"processed"}
    for dataset in workflow.output_datasets:
        assert set(parents_of(dataset)) == lfns
        rows = OutputFile.objects.filter(block__dataset__dataset_name=dataset)
        known = {file.lfn: file.events for file in stack.lab_files(dataset)}
        assert known == dict(rows.values_list("lfn", "events"))
        assert sum(known.values()) == sum(workflow.input_files.values_list("events", flat=True))
    assert "processed" in outcomes(workflow)
    assert not RunnerOutput.objects.filter(runner__workflow=workflow, state="recorded").exists()


def _check_counters(workflow: Workflow) -> None:
    firsts = sorted(workflow.input_files.values_list("first_event", "events", "state"))
    assert firsts == [(number, 100, "processed") for number in range(1, 601, 100)]
    lumis = [tuple(part) for rows in workflow.input_files.values_list("lumis", flat=True) for part in rows]
    assert len(lumis) == len(set(lumis)) == 6
    files = OutputFile.objects.filter(block__dataset__workflow=workflow)
    assert sum(files.values_list("events", flat=True)) == 600
    assert all(parents == [] for parents in files.values_list("parents", flat=True))


def _check_script(workflow: Workflow) -> None:
    lfns = set(InputFile.objects.filter(workflow=workflow).values_list("lfn", flat=True))
    (dataset,) = workflow.output_datasets
    assert f"/w{workflow.number}s1p1-v1/" in dataset
    assert set(parents_of(dataset)) == lfns
    assert not OutputFile.objects.filter(
        block__dataset__dataset_name=dataset, block__dataset__in_dbs=True
    ).exists()
    assert max(Runner.objects.filter(workflow=workflow).values_list("files_lent", flat=True)) <= 2
