"""Lineage of datasets, both ways: what a dataset was made from, and what was made from it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated

from chains_app.models import ChainDataset, ChainStep

MAX_STEPS = 1000


@dataclass(frozen=True, slots=True)
class Origin:
    """A step that read one dataset and wrote another."""

    dataset_name: str
    made_from: str
    chain: int
    template: str
    template_version: int
    step: str
    request_name: str
    distance: Annotated[int, "Steps between it and the requested dataset."]


@dataclass(frozen=True, slots=True)
class Lineage:
    """Everything a dataset was made from, and everything made from it."""

    dataset_name: str
    status: Annotated[str, "Status in its chain; empty if no chain has it."]
    ancestors: list[Origin]
    descendants: list[Origin]
    complete: Annotated[bool, "False if there is more than is listed."]


def lineage_of(dataset_name: str) -> Lineage:
    """Return the lineage of a dataset, nearest first. An unknown dataset has none."""
    row = ChainDataset.objects.filter(dataset_name=dataset_name).order_by("producer_id").first()
    up, all_up = _walk(dataset_name, _makers)
    down, all_down = _walk(dataset_name, _readers)
    return Lineage(
        dataset_name=dataset_name,
        status=row.status if row is not None else "",
        ancestors=up,
        descendants=down,
        complete=all_up and all_down,
    )


_Link = tuple[ChainStep, str, str, str]  # step, what it wrote, what it read, the next dataset of the walk
_Neighbours = Callable[[list[str]], list[_Link]]


def _walk(dataset_name: str, neighbours: _Neighbours) -> tuple[list[Origin], bool]:
    found: list[Origin] = []
    seen, front, distance = {dataset_name}, [dataset_name], 1
    while front and len(found) < MAX_STEPS:
        following: list[str] = []
        for step, made, source, other in neighbours(front):
            found.append(_origin(step, made, source, distance))
            if other not in seen:
                seen.add(other)
                following.append(other)
        front, distance = following, distance + 1
    return found[:MAX_STEPS], not front


def _makers(names: list[str]) -> list[_Link]:
    """Return the steps that wrote these datasets, with what each of them read."""
    rows = ChainDataset.objects.filter(dataset_name__in=names, producer__isnull=False)
    links = []
    for row in rows.select_related("producer__chain__template").order_by("id"):
        if row.producer is not None:
            for read in row.producer.consumes.order_by("id"):
                links.append((row.producer, row.dataset_name, read.dataset_name, read.dataset_name))
    return links


def _readers(names: list[str]) -> list[_Link]:
    """Return the steps that read these datasets, with what each of them writes."""
    links = []
    rows = ChainDataset.objects.filter(dataset_name__in=names).prefetch_related(
        "consumers__chain__template", "consumers__datasets"
    )
    for row in rows.order_by("id"):
        for step in row.consumers.all():
            for written in step.datasets.all():
                links.append((step, written.dataset_name, row.dataset_name, written.dataset_name))
    return links


def _origin(step: ChainStep, made: str, source: str, distance: int) -> Origin:
    return Origin(
        dataset_name=made,
        made_from=source,
        chain=step.chain_id,
        template=step.chain.template.name,
        template_version=step.chain.template.version,
        step=str(step),
        request_name=step.request_name,
        distance=distance,
    )
