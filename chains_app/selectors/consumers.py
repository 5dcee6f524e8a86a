"""Consumers of datasets, counted over all chains and all unfinished requests."""

from __future__ import annotations

from chains_app.cwl.graph import build_graph
from chains_app.models import Announcement, Chain, ChainDataset
from chains_app.selectors.templates import workflow_of
from chains_app.states import OPEN, STEP_DONE, AnnouncementStatus
from requests_app.selectors.requests import unfinished_readers


def done_paths(chain: Chain) -> frozenset[str]:
    """Return the steps of a chain of which every call is finished or skipped.

    Rows of a scattered step are added together, so they are complete once there are any. Those of an inner
    workflow are not, so its steps count as done when the chain has ended.
    """
    statuses: dict[str, set[str]] = {}
    for path, status in chain.steps.values_list("step", "status"):
        statuses.setdefault(path, set()).add(status)
    ended = chain.status not in OPEN
    return frozenset(
        path for path, found in statuses.items() if found <= STEP_DONE and (ended or "/" not in path)
    )


def waiting_consumers(dataset: ChainDataset) -> list[str]:
    """Return a description of each consumer that still needs a dataset."""
    name = dataset.dataset_name
    found = [f"request {one}" for one in unfinished_readers(dataset=name)[:20]]
    pending = Announcement.objects.filter(dataset_name=name, status=AnnouncementStatus.PENDING)
    found += [f"announcement {uid}" for uid in pending.values_list("uid", flat=True)[:20]]
    rows = ChainDataset.objects.filter(dataset_name=name, chain__status__in=sorted(OPEN))
    for row in rows.select_related("chain__template", "producer"):
        found += [f"{row.chain}, step {path}" for path in unfinished_consumers(row)]
    return found


def unfinished_consumers(row: ChainDataset) -> list[str]:
    """Return the steps of the dataset's own chain that read it and are not done."""
    graph = build_graph(workflow_of(row.chain.template))
    producer = row.producer.step if row.producer is not None else ""
    return sorted(graph.consumers((producer, row.port)) - done_paths(row.chain))
