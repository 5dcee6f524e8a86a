"""Every name a plan gives: nodes, groups, files. Deterministic, so that doing it again changes nothing."""

from __future__ import annotations

import uuid

from sandbox import names as file_names

NAMESPACE = uuid.UUID("6f0b5c1e-6a35-4f0e-9d4b-6d5a1f0c2b77")


def group_name(index: int) -> str:
    """The SUBDAG's node and directory name."""
    return f"mg_{index:06d}"


def group_index(name: str) -> int | None:
    """The index behind a group's name; None if it is not one."""
    prefix, _, digits = name.partition("_")
    return int(digits) if prefix == "mg" and digits.isascii() and digits.isdigit() else None


def node_name(index: int) -> str:
    """A processing node, numbered within the round."""
    return f"proc_{index:06d}"


def dag_id(workflow_id: str, *, round_number: int) -> uuid.UUID:
    """The id of the first DAG of a round: planning it again lands in the same directory."""
    return uuid.uuid5(NAMESPACE, f"dag {workflow_id} {round_number}")


def token(dag: uuid.UUID) -> str:
    """What JobBatchName carries, by which a submission is found again."""
    return f"wms2-{dag.hex}"


def merged_id(workflow_id: str, *, round_number: int, group: int, dataset: str) -> str:
    """The unique part of a merged file's name."""
    return uuid.uuid5(NAMESPACE, f"merged {workflow_id} {round_number} {group} {dataset}").hex


def merged_lfn(base: str, workflow_id: str, *, round_number: int, group: int, dataset: str) -> str:
    """The merged file of one group in one dataset, below an LFN base."""
    unique = merged_id(workflow_id, round_number=round_number, group=group, dataset=dataset)
    return file_names.merged_lfn(dataset_directory(base, dataset), unique)


def dataset_directory(base: str, dataset: str) -> str:
    """Where files of a dataset lie below an LFN base, as CMS does it: era, primary, tier, string-version."""
    _, primary, processed, tier = dataset.split("/")
    era, _, processing = processed.partition("-")
    return "/".join(part for part in (base, era, primary, tier, processing) if part)
