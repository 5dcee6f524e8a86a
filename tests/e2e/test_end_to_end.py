"""From POST to announced outputs on real services, and what must be true of the result."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import requests

from condor.submitfile import token_file_name
from dags_app.models import DAG, InputFile, MergeGroup, Workflow
from outputs_app.models import OutputBlock, OutputFile
from tests.e2e.conftest import Stack, setting
from tests.waiting import until

Json = dict[str, Any]
Completed = Callable[[str], Json]
KINDS = ["data", "generated", "urgent"]


def workflow_of(request: Json) -> Workflow:
    return Workflow.objects.get(request_name=request["request_name"])


def merged_files(request: Json) -> list[OutputFile]:
    rows = OutputFile.objects.filter(block__dataset__workflow=workflow_of(request))
    return list(rows.select_related("block__dataset").order_by("lfn"))


@pytest.mark.parametrize("kind", KINDS)
def test_every_group_is_collected_and_every_block_announced(completed: Completed, kind: str) -> None:
    request = completed(kind)
    workflow = workflow_of(request)
    groups = MergeGroup.objects.filter(round__workflow=workflow).values_list("status", flat=True)
    blocks = OutputBlock.objects.filter(dataset__workflow=workflow).values_list("status", flat=True)
    assert set(groups) == {"collected"}
    assert set(blocks) == {"announced"}
    assert request["progress"]["fraction"] == 1.0


@pytest.mark.parametrize(("kind", "path"), [
    ("data", ["submitted", "queued", "pilot_running", "planning", "active", "completed"]),
    ("generated", ["submitted", "queued", "pilot_running", "planning", "active", "completed"]),
    ("urgent", ["submitted", "queued", "planning", "active", "completed"]),
])  # fmt: skip
def test_the_timeline_has_every_status_change(
    stack: Stack, completed: Completed, kind: str, path: list[str]
) -> None:
    timeline = stack.status_changes(completed(kind)["request_name"])
    assert [row["to_status"] for row in timeline] == path
    assert all(row["actor"] and row["reason"] for row in timeline)


@pytest.mark.parametrize("kind", ["data", "urgent"])
def test_every_input_event_is_in_the_output_exactly_once(
    stack: Stack, completed: Completed, kind: str
) -> None:
    request = completed(kind)
    workflow = workflow_of(request)
    wanted: Counter[tuple[int, int, int]] = Counter()
    sites = {"T1_US_FNAL_Disk": "T1_US_FNAL"}
    for file in InputFile.objects.filter(workflow=workflow):
        site = file.locations[0]
        wanted += stack.events_in(file.lfn, sites.get(site, site))
    for dataset in workflow.output_datasets:
        written: Counter[tuple[int, int, int]] = Counter()
        for merged in merged_files(request):
            if merged.block.dataset.dataset_name == dataset:
                written += stack.events_in(merged.lfn, merged.block.site)
        assert written == wanted, dataset


def test_generated_events_are_unique_and_enough(stack: Stack, completed: Completed) -> None:
    request = completed("generated")
    written: Counter[tuple[int, int, int]] = Counter()
    for merged in merged_files(request):
        written += stack.events_in(merged.lfn, merged.block.site)
    assert max(written.values()) == 1
    assert len(written) >= (workflow_of(request).total_events or 0)


@pytest.mark.parametrize("kind", KINDS)
def test_dbs_has_every_block_with_its_files_and_events(stack: Stack, completed: Completed, kind: str) -> None:
    for block in OutputBlock.objects.filter(dataset__workflow=workflow_of(completed(kind))):
        answer = requests.get(
            f"{stack.cms_url}/dbs/DBSReader/files",
            params={"block_name": block.block_name, "detail": "1"},
            headers={"Accept": "application/json"},
            timeout=30,
        ).json()
        ours = {file.lfn: (file.events, file.size_bytes) for file in block.files.all()}
        theirs = {row["logical_file_name"]: (row["event_count"], row["file_size"]) for row in answer}
        assert theirs == ours


@pytest.mark.parametrize("kind", KINDS)
def test_a_block_is_protected_at_its_source_or_at_its_destinations(completed: Completed, kind: str) -> None:
    for block in OutputBlock.objects.filter(dataset__workflow=workflow_of(completed(kind))):
        rules = {(rule.kind, rule.deleted_at is None) for rule in block.rules.all()}
        assert rules in ({("source", True)}, {("source", False), ("transfer", True)}), block.block_name
        assert all(rule.rule_id for rule in block.rules.all())


@pytest.mark.parametrize("kind", KINDS)
def test_each_round_was_submitted_once(completed: Completed, kind: str) -> None:
    dags = DAG.objects.filter(workflow=workflow_of(completed(kind)))
    assert {dag.status for dag in dags} == {"completed"}
    assert len({dag.round_id for dag in dags}) == len(dags)


def test_the_data_request_ran_at_three_sites_and_was_measured(completed: Completed) -> None:
    workflow = workflow_of(completed("data"))
    files = InputFile.objects.filter(workflow=workflow)
    assert files.count() >= 24
    assert len({location for file in files for location in file.locations}) >= 3
    assert workflow.pilot_metrics["recommended"]["memory_mb"] > 0
    assert len(set(MergeGroup.objects.filter(round__workflow=workflow).values_list("site", flat=True))) >= 3


def test_tokens_of_jobs_are_removed_with_their_dags(completed: Completed) -> None:
    workflow = workflow_of(completed("urgent"))
    name = token_file_name(str(workflow.pk))
    submit_files = [(Path(dag.submit_dir) / "proc.sub").read_text() for dag in workflow.dags.all()]

    assert all(f"WMS2_TOKEN_FILE={name}" in text for text in submit_files)
    assert submit_files
    path = Path(setting("WMS2_CREDENTIAL_DIR")) / name
    until(lambda: not path.exists(), why=f"{path} is still there")
