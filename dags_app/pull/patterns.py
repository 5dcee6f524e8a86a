"""The output patterns of a stored workflow."""

from __future__ import annotations

from django.db import connection

from dags_app.models import Workflow
from dags_app.pull.outputs import FIELD, Naming, OutputPattern, generated_datasets, read_patterns


def naming_of(workflow: Workflow) -> Naming:
    """Return the parts of the names of the workflow's generated datasets."""
    return Naming(
        workflow_number=workflow.number,
        primary_dataset=workflow.primary_dataset,
        version=workflow.processing_version,
    )


def patterns_of(workflow: Workflow) -> tuple[OutputPattern, ...]:
    """Return the workflow's output patterns, which were validated with its document."""
    return read_patterns(
        workflow.payload_config, output_datasets=workflow.output_datasets, naming=naming_of(workflow)
    )


def only_scratch(workflow: Workflow) -> bool:
    """Return whether all outputs of the workflow go to scratch, so that no dataset gets files."""
    return workflow.pulls and not any(one.dataset for one in patterns_of(workflow))


def name_pull_outputs(workflow: Workflow) -> Workflow:
    """Number a new pull workflow and add the datasets of patterns that name none to its outputs."""
    if not workflow.pulls or FIELD not in workflow.payload_config:
        return workflow
    with connection.cursor() as cursor:
        cursor.execute("SELECT nextval('dags_app_workflow_number')")
        workflow.number = cursor.fetchone()[0]
    generated = generated_datasets(workflow.payload_config, naming_of(workflow))
    named = {entry.get("dataset") for entry in workflow.payload_config[FIELD]}
    kept = [name for name in workflow.output_datasets if name in named]
    workflow.output_datasets = [*kept, *generated] or workflow.output_datasets
    return workflow
