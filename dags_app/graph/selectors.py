"""The graph of a workflow: its rounds and groups from the database, the nodes of some groups from files."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Annotated, NamedTuple
from uuid import UUID

from django.db import connection
from django.db.models import Max

from condor.types import NodeState
from dags_app.dag_files import group_states, node_names
from dags_app.failures import records
from dags_app.failures.clusters import FailedJob
from dags_app.graph.positions import Band, RoundShape, build_bands, node_positions
from dags_app.models import Workflow
from dags_app.planning.names import group_name
from dags_app.planning.types import SERVICE_NODES
from dags_app.services.directories import check_directory
from dags_app.states import GroupStatus
from sandbox.elect_site import elected_site
from sandbox.postrecord import SUCCESS, PostRecord, last_records, read_records
from wms2_project.errors import NotFound

GROUP_COLUMNS = (
    "round", "index", "x", "y", "status", "site", "cause", "jobs", "done", "failed", "running", "idle",
    "held", "seconds",
)  # fmt: skip
RECORD_COLUMNS = ("node", "cause", "exit_code", "attempts", "seconds")
GROUP_STATUSES = tuple(GroupStatus)
NODE_STATES = tuple(state.name.lower() for state in NodeState)
MAX_GROUPS_READ = 256  # of one call for nodes
MAX_NODES_READ = 20_000  # after which no further group is read
MAX_CAUSES = 20

_GROUPS = f"""
SELECT d.number, d.kind, d.status, g.index, g.status, g.site, g.jobs,
       CASE WHEN c.complete THEN c.nodes ELSE least(g.nodes_done, c.nodes) END,
       CASE WHEN c.complete THEN 0 ELSE g.nodes_failed END,
       CASE WHEN c.complete THEN 0 ELSE g.nodes_running END,
       CASE WHEN c.complete THEN 0 ELSE g.nodes_idle END,
       CASE WHEN c.complete THEN 0 ELSE g.nodes_held END,
       round((g.metrics->>'wall_time_sec')::numeric / g.jobs), d.directory_removed_at IS NULL
  FROM dags_app_round d JOIN dags_app_mergegroup g ON g.round_id = d.id,
       LATERAL (SELECT g.status IN ('done', 'collected') AS complete, g.jobs + {SERVICE_NODES} AS nodes) c
 WHERE d.workflow_id = %s ORDER BY d.number, g.index"""  # noqa: S608 — ours


@dataclass(frozen=True, slots=True)
class GraphRound:
    """A round: a band of tiles."""

    number: int
    kind: str
    status: str
    dag: Annotated[UUID | None, "The newest DAG of the round; nodes and logs are read from its directory."]
    dag_status: str
    on_disk: Annotated[bool, "Whether the directory with nodes and logs exists. It is removed by policy."]
    x: int
    y: int
    width: int
    height: int
    tile_width: int
    tile_height: int
    groups: int
    nodes: int


@dataclass(frozen=True, slots=True)
class GraphCause:
    """A cause of failures."""

    fingerprint: str
    label: str
    jobs: int


@dataclass(frozen=True, slots=True)
class Graph:
    """Rounds and groups with positions. `groups` has one row of numbers per group, see `columns`.

    `status`, `site` and `cause` of a group are indexes into the lists of these names; -1 is none. `done` to
    `held` count its nodes, `seconds` is the mean wall time of its jobs, -1 before it is measured.
    """

    width: int
    height: int
    nodes: int
    statuses: list[str]
    sites: list[str]
    causes: list[GraphCause]
    rounds: list[GraphRound]
    columns: list[str]
    groups: Annotated[list[list[int]], "Rows of numbers, in the order of `columns`."]


@dataclass(frozen=True, slots=True)
class GroupNodes:
    """The nodes of one group, in the order of their names."""

    group: str
    index: int
    site: str
    as_of: Annotated[int, "When DAGMan wrote the states (epoch); 0: it has not begun."]
    names: list[str]
    states: Annotated[list[int], "Indexes into the names of states."]
    records: Annotated[list[list[int]], "Rows of numbers of nodes that ended, in the order of `columns`."]


@dataclass(frozen=True, slots=True)
class NodesOfGroups:
    """Nodes of groups of a round. A call returns about 20,000 nodes: ask again for groups that are missing.

    `node` of a record is an index into the names of its group; -1 is unknown.
    """

    round: int
    columns: list[str]
    states: list[str]
    places: Annotated[
        list[list[int]],
        "Positions within a tile of the nodes of the largest group. The first nodes of a group have the first"
        " ones, its merge and cleanup the last two.",
    ]
    groups: list[GroupNodes]


class _Group(NamedTuple):
    """One row of the query, in column order."""

    round: int
    kind: str
    round_status: str
    number: int
    status: str
    site: str
    jobs: int
    done: int
    failed: int
    running: int
    idle: int
    held: int
    seconds: int | None
    on_disk: bool


def graph_of(*, workflow: Workflow) -> Graph:
    """Return the rounds and groups of a workflow with their positions, in three queries."""
    with connection.cursor() as cursor:
        cursor.execute(_GROUPS, [workflow.pk])
        rows = [_Group(*row) for row in cursor.fetchall()]
    by_round = [(number, list(part)) for number, part in groupby(rows, key=lambda row: row.round)]
    shapes = [RoundShape(len(part), max(row.jobs for row in part)) for _, part in by_round]
    bands = build_bands(shapes)
    dags = _newest_dags(workflow)
    causes, cause_of = _causes(workflow)
    sites = sorted({row.site for row in rows} - {""})
    site_of = {site: number for number, site in enumerate(sites)}
    groups = []
    for (number, part), band in zip(by_round, bands, strict=True):
        for place, row in enumerate(part):
            cause = cause_of.get((number, group_name(row.number)), -1)
            groups.append(_group_row(row, band.tile(place), site_of.get(row.site, -1), cause))
    return Graph(
        width=max((band.x + band.width for band in bands), default=0),
        height=max((band.y + band.height for band in bands), default=0),
        nodes=sum(row.jobs + SERVICE_NODES for row in rows),
        statuses=[status.value for status in GROUP_STATUSES],
        sites=sites,
        causes=causes,
        rounds=[
            _round(part, band, dags.get(number)) for (number, part), band in zip(by_round, bands, strict=True)
        ],
        columns=list(GROUP_COLUMNS),
        groups=groups,
    )


def _group_row(row: _Group, place: tuple[int, int], site: int, cause: int) -> list[int]:
    """Return the numbers of a group, in the order of GROUP_COLUMNS."""
    seconds = -1 if row.seconds is None else int(row.seconds)
    status = GROUP_STATUSES.index(GroupStatus(row.status))
    counts = [row.jobs, row.done, row.failed, row.running, row.idle, row.held]
    return [row.round, row.number, *place, status, site, cause, *counts, seconds]


def _round(part: Sequence[_Group], band: Band, dag: tuple[UUID, str] | None) -> GraphRound:
    first = part[0]
    return GraphRound(
        number=first.round,
        kind=first.kind,
        status=first.round_status,
        dag=dag[0] if dag else None,
        dag_status=dag[1] if dag else "",
        on_disk=dag is not None and first.on_disk,
        x=band.x,
        y=band.y,
        width=band.width,
        height=band.height,
        tile_width=band.tile_width,
        tile_height=band.tile_height,
        groups=len(part),
        nodes=sum(row.jobs + SERVICE_NODES for row in part),
    )


def _newest_dags(workflow: Workflow) -> dict[int, tuple[UUID, str]]:
    rows = workflow.dags.order_by("created_at").values_list("round__number", "id", "status")
    return {number: (dag, status) for number, dag, status in rows}


def _causes(workflow: Workflow) -> tuple[list[GraphCause], dict[tuple[int, str], int]]:
    """Return the most frequent causes of failures, and the index of the cause by round and group."""
    newest = records.newest_clusters(workflow.failures.all()).order_by("-jobs", "id")
    found: dict[str, int] = {}
    causes: list[GraphCause] = []
    cause_of: dict[tuple[int, str], int] = {}
    columns = ("dag__round__number", "fingerprint", "exit_code", "category", "jobs", "groups")
    for number, fingerprint, code, category, jobs, groups in newest.values_list(*columns):
        if fingerprint not in found:
            if len(causes) == MAX_CAUSES:
                continue
            found[fingerprint] = len(causes)
            causes.append(GraphCause(fingerprint, f"{category} {code}", jobs))
        for group in groups:
            cause_of.setdefault((number, group), found[fingerprint])
    return causes, cause_of


def nodes_of(
    *, workflow: Workflow, round_number: int, indexes: Sequence[int], all_records: bool = False
) -> NodesOfGroups:
    """Return the nodes of these groups, from the files of their DAGMans. Raise NotFound for unknown ones.

    Cause, exit code, attempts and seconds are known of failed nodes only, unless all records are read.
    """
    dag = (
        workflow.dags.filter(round__number=round_number).select_related("round").order_by("created_at").last()
    )
    if dag is None:
        raise NotFound(f"{workflow.request_name} has no DAG in round {round_number}")
    rows = dag.round.groups.filter(index__in=indexes).values_list("index", "status", "site")
    groups = {row[0]: _GroupOnDisk(*row) for row in rows}
    if unknown := [index for index in indexes if index not in groups]:
        raise NotFound(f"Round {round_number} has no group {unknown[0]}")
    causes, _ = _causes(workflow)
    cause_of = {cause.fingerprint: number for number, cause in enumerate(causes)}
    most_jobs = dag.round.groups.aggregate(most=Max("jobs"))["most"] or 0
    directory, found, nodes = check_directory(dag), list[GroupNodes](), 0
    for index in indexes:
        if nodes >= MAX_NODES_READ:
            break
        found.append(_nodes_of_group(directory, groups[index], cause_of, all_records))
        nodes += len(found[-1].names)
    return NodesOfGroups(
        round=round_number,
        columns=list(RECORD_COLUMNS),
        states=list(NODE_STATES),
        places=[[x, y] for x, y in node_positions(most_jobs, most_jobs=most_jobs)],
        groups=found,
    )


@dataclass(frozen=True, slots=True)
class _GroupOnDisk:
    """A group whose files are read."""

    index: int
    status: str
    site: str


def _nodes_of_group(
    directory: Path, group: _GroupOnDisk, cause_of: dict[str, int], all_records: bool
) -> GroupNodes:
    name = group_name(group.index)
    names = node_names(directory, name)
    complete = group.status in records.CREDITED
    found = group_states(directory, name)
    if complete:
        states = [NodeState.DONE.value] * len(names)
    else:
        states = [found.of_nodes.get(node, NodeState.NOT_READY).value for node in names]
    if all_records:
        ended = last_records(directory / name)
    else:
        failed = [node for node, state in zip(names, states, strict=True) if state == NodeState.ERROR.value]
        ended = {node: record for node in failed for record in read_records(directory / name, node)}
    return GroupNodes(
        group=name,
        index=group.index,
        site=group.site or elected_site(directory / name),
        as_of=found.as_of,
        names=names,
        states=states,
        records=[
            [number, *_record_columns(name, ended[node], cause_of)]
            for number, node in enumerate(names)
            if node in ended
        ],
    )


def _record_columns(group: str, record: PostRecord, cause_of: dict[str, int]) -> list[int]:
    """Return cause, exit code, attempts and seconds of a node's last attempt; -1 is unknown."""
    cause = -1
    if record.category != SUCCESS:
        cause = cause_of.get(FailedJob.of(group, record).fingerprint, -1)
    return [cause, record.exit_code, record.attempt + 1, round(record.wall_time_sec)]
