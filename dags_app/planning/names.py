"""Names of nodes, groups and files. Deterministic, so that planning may be repeated."""

from __future__ import annotations

import uuid

from sandbox import names as file_names

NAMESPACE = uuid.UUID("6f0b5c1e-6a35-4f0e-9d4b-6d5a1f0c2b77")


def group_name(index: int) -> str:
    """Return the name of the SUBDAG's node and directory."""
    return f"mg_{index:06d}"


def group_index(name: str) -> int | None:
    """Return the index of a group from its name; None if it is not one."""
    prefix, _, digits = name.partition("_")
    return int(digits) if prefix == "mg" and digits.isascii() and digits.isdigit() else None


def node_name(index: int) -> str:
    """Return the name of a processing node, numbered within the round."""
    return f"proc_{index:06d}"


def dag_id(workflow_id: str, *, round_number: int) -> uuid.UUID:
    """Return the id of the first DAG of a round: planning it again uses the same directory."""
    return uuid.uuid5(NAMESPACE, f"dag {workflow_id} {round_number}")


def next_dag_id(parent: uuid.UUID) -> uuid.UUID:
    """Return the id of the DAG that continues a round after `parent`: preparing it again gives the same."""
    return uuid.uuid5(NAMESPACE, f"dag after {parent}")


def token(dag: uuid.UUID) -> str:
    """Return the DAG's JobBatchName, by which a submission is found again."""
    return f"wms2-{dag.hex}"


def merged_id(workflow_id: str, *, round_number: int, group: int, dataset: str) -> str:
    """Return the unique part of a merged file's name."""
    return uuid.uuid5(NAMESPACE, f"merged {workflow_id} {round_number} {group} {dataset}").hex


def merged_lfn(base: str, workflow_id: str, *, round_number: int, group: int, dataset: str) -> str:
    """Return the name of a group's merged file in a dataset, below an LFN base."""
    unique = merged_id(workflow_id, round_number=round_number, group=group, dataset=dataset)
    return file_names.merged_lfn(dataset_directory(base, dataset), unique)


def log_lfn(base: str, workflow_id: str, *, round_number: int, group: int, dataset: str) -> str:
    """Return the name of a group's log file in a dataset, below an LFN base."""
    unique = merged_id(workflow_id, round_number=round_number, group=group, dataset=dataset)
    return file_names.log_lfn(dataset_directory(base, dataset), unique)


def dataset_directory(base: str, dataset: str) -> str:
    """Return the directory of a dataset below an LFN base: era, primary, tier, string-version."""
    _, primary, processed, tier = dataset.split("/")
    era, _, processing = processed.partition("-")
    return "/".join(part for part in (base, era, primary, tier, processing) if part)
