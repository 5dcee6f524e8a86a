"""One chain: its graph, progress and explanation."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any

from chains_app.cwl.graph import Graph, Leaf, build_graph
from chains_app.models import Chain, ChainStep
from chains_app.selectors.consumers import done_paths
from chains_app.selectors.templates import workflow_of
from chains_app.states import CHAINS, ENDED, STEP_DONE, STEPS, ChainStatus, DatasetRole, StepStatus
from requests_app.models import Request
from requests_app.selectors.why import why as why_request
from requests_app.states import TERMINAL
from wms2_project.errors import NotFound


def chain_by_number(number: int) -> Chain:
    """Return the chain with its template and announcement. Raise NotFound if it does not exist."""
    chain = Chain.objects.select_related("template", "announcement").filter(pk=number).first()
    if chain is None:
        raise NotFound(f"There is no chain {number}", cure="See GET /api/v1/chains")
    return chain


@dataclass(frozen=True, slots=True)
class StepNode:
    """A step with all its calls. `level` is its distance from the input."""

    id: str
    label: str
    mode: str
    level: int
    status: Annotated[str, "Status of its least advanced call; `defined` if none is known yet."]
    calls: dict[str, int]
    requests: Annotated[list[str], "Requests of its calls, at most 20."]
    waits_for: str


@dataclass(frozen=True, slots=True)
class DatasetNode:
    """The datasets that one port of a step writes, or the input of the chain."""

    id: str
    label: str
    role: str
    level: int
    statuses: dict[str, int]
    datasets: Annotated[list[str], "Names, at most 20."]


@dataclass(frozen=True, slots=True)
class Edge:
    """A step writes a dataset, or reads it."""

    source: str
    target: str


@dataclass(frozen=True, slots=True)
class ChainGraph:
    """Steps and the datasets between them."""

    chain: int
    status: str
    steps: list[StepNode]
    datasets: list[DatasetNode]
    edges: list[Edge]


_ORDER = [StepStatus.HELD, StepStatus.RUNNING, StepStatus.DEFINED, StepStatus.CANCELLED, StepStatus.FINISHED,
          StepStatus.SKIPPED]  # fmt: skip


def chain_graph(chain: Chain) -> ChainGraph:
    """Return the graph of a chain in a fixed number of queries."""
    graph = build_graph(workflow_of(chain.template))
    calls: dict[str, list[ChainStep]] = {leaf.path: [] for leaf in graph.leaves}
    for row in chain.steps.order_by("id"):
        calls[row.step].append(row)
    datasets: dict[str, list[Any]] = {}
    for made in chain.datasets.exclude(role=DatasetRole.LOG).select_related("producer").order_by("id"):
        producer = made.producer.step if made.producer is not None else ""
        datasets.setdefault(f"{producer}:{made.port}", []).append(made)
    levels: dict[str, int] = {}
    for leaf in graph.leaves:
        above = [levels[path] for path, _ in graph.reads[leaf.path] if path in levels]
        levels[leaf.path] = max(above, default=-1) + 1
    producers = _unfinished_producers(chain, graph)
    edges = [
        Edge(f"{path}:{port}", leaf) for leaf, ports in graph.reads.items() for path, port in sorted(ports)
    ]
    edges += [Edge(key.partition(":")[0], key) for key in datasets if not key.startswith(":")]
    return ChainGraph(
        chain=chain.pk,
        status=chain.status,
        steps=[
            _step_node(leaf, calls[leaf.path], levels[leaf.path], producers[leaf.path])
            for leaf in graph.leaves
        ],
        datasets=[_dataset_node(key, rows, levels) for key, rows in datasets.items()],
        edges=[one for one in edges if one.source in datasets or one.target in datasets],
    )


def _unfinished_producers(chain: Chain, graph: Graph) -> dict[str, str]:
    """Return, by step, a text that names the steps it waits for; empty if it waits for none."""
    done = done_paths(chain)
    waiting = {
        leaf: sorted({path for path, _ in ports if path and path not in done})
        for leaf, ports in graph.reads.items()
    }
    return {leaf: f"waits for {', '.join(paths)}" if paths else "" for leaf, paths in waiting.items()}


def _step_node(leaf: Leaf, rows: list[ChainStep], level: int, waits_for: str) -> StepNode:
    counts = Counter(row.status for row in rows)
    status = next((one for one in _ORDER if counts[one]), StepStatus.DEFINED)
    waits = next((row.wait_reason for row in rows if row.wait_reason), "")
    if status == StepStatus.DEFINED:
        waits = waits or waits_for
    return StepNode(
        id=leaf.path,
        label=leaf.path,
        mode=leaf.step.tool.mode if leaf.step.tool else "",
        level=level,
        status=status,
        calls=dict(counts),
        requests=[row.request_name for row in rows if row.request_id][:20],
        waits_for=waits,
    )


def _dataset_node(key: str, rows: list[Any], levels: dict[str, int]) -> DatasetNode:
    producer, _, port = key.partition(":")
    return DatasetNode(
        id=key,
        label=port,
        role=rows[0].role,
        level=levels.get(producer, -1),
        statuses=dict(Counter(row.status for row in rows)),
        datasets=[row.dataset_name for row in rows[:20]],
    )


@dataclass(frozen=True, slots=True)
class ChainProgress:
    """Counts of a chain's calls, and the finals that are complete."""

    chain: int
    status: str
    steps: Annotated[int, "Calls known so far."]
    by_status: dict[str, int]
    finals_done: int
    finals: int
    fraction: Annotated[float, {"min_value": 0, "max_value": 1}]


def chain_progress(chain: Chain) -> ChainProgress:
    """Return the progress of a chain, counted from its steps."""
    counts = Counter(chain.steps.values_list("status", flat=True))
    total, done = sum(counts.values()), sum(counts[one] for one in STEP_DONE)
    finals = list(chain.datasets.filter(role=DatasetRole.FINAL).select_related("producer"))
    return ChainProgress(
        chain=chain.pk,
        status=chain.status,
        steps=total,
        by_status=dict(counts),
        finals_done=sum(row.producer is not None and row.producer.status in STEP_DONE for row in finals),
        finals=len(finals),
        fraction=1.0 if chain.status == ChainStatus.FINISHED else round(done / total, 4) if total else 0.0,
    )


@dataclass(frozen=True, slots=True)
class StepWhy:
    """Explanation of the status of one call."""

    step: str
    status: str
    since: datetime
    reason: str
    remedy: str
    request_name: str
    request_summary: Annotated[str, "What the request waits for."]


@dataclass(frozen=True, slots=True)
class ChainWhy:
    """Explanation of the status of a chain: a summary, and every call that is not done."""

    chain: int
    status: str
    status_why: str
    status_since: datetime
    summary: str
    last_error: str
    steps: list[StepWhy]


def chain_why(chain: Chain, *, now: datetime, limit: int = 50) -> ChainWhy:
    """Explain a chain: what each unfinished call waits for, since when, and the remedy."""
    rows = (
        chain.steps.exclude(status__in=sorted(STEP_DONE)).select_related("request__workflow").order_by("id")
    )
    if chain.status in ENDED:
        steps = []
    else:
        producers = _unfinished_producers(chain, build_graph(workflow_of(chain.template)))
        holds = _holds(chain)
        steps = [_step_why(row, now, producers[row.step], holds.pop(str(row), [])) for row in rows[:limit]]
        steps += [_hold_why(chain, step, found) for step, found in holds.items()]
    return ChainWhy(
        chain=chain.pk,
        status=chain.status,
        status_why=CHAINS[ChainStatus(chain.status)].why,
        status_since=chain.status_since,
        summary=_summary(chain),
        last_error=chain.last_error,
        steps=steps,
    )


def _holds(chain: Chain) -> dict[str, list[dict[str, Any]]]:
    """Return the evidence of a held chain by step; that of its outputs has no step."""
    found: dict[str, list[dict[str, Any]]] = {}
    for one in (chain.hold_evidence or {}).get("steps") or []:
        found.setdefault(one.get("step", ""), []).append(one)
    return found


def _hold_why(chain: Chain, step: str, holds: list[dict[str, Any]]) -> StepWhy:
    """Explain what holds a chain and is no row: a step whose calls are not known, or an output."""
    return StepWhy(
        step=step, status=StepStatus.HELD, since=chain.status_since, reason=_joined(holds, "reason"),
        remedy=_joined(holds, "remedy"), request_name="", request_summary="",
    )  # fmt: skip


def _joined(holds: list[dict[str, Any]], name: str) -> str:
    return "; ".join(dict.fromkeys(str(one.get(name, "")) for one in holds[:5]))


def _summary(chain: Chain) -> str:
    evidence = (chain.hold_evidence or {}).get("steps") or []
    if evidence:
        return "; ".join(str(one.get("reason", "")) for one in evidence[:5])
    return chain.wait_reason or CHAINS[ChainStatus(chain.status)].why


def _step_why(row: ChainStep, now: datetime, waits_for: str, holds: list[dict[str, Any]]) -> StepWhy:
    evidence = row.hold_evidence or {}
    known = evidence.get("reason") or _joined(holds, "reason") or row.wait_reason
    if row.status == StepStatus.DEFINED:
        known = known or waits_for
    request: Request | None = row.request
    summary = ""
    if request is not None and request.status not in TERMINAL:
        summary = why_request(request, now=now, ask_condor=False).summary
    return StepWhy(
        step=str(row),
        status=row.status,
        since=row.status_since,
        reason=str(known or STEPS[StepStatus(row.status)].why),
        remedy=str(evidence.get("remedy") or _joined(holds, "remedy")),
        request_name=request.request_name if request else "",
        request_summary=summary,
    )
