"""Rounds, DAGs, groups, input files and failures of one request of the fleet."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from random import Random
from uuid import UUID

from dags_app.failures.clusters import MEMORY, fingerprint_of
from dags_app.models import DAG, FailureCluster, InputFile, MergeGroup, Round, Workflow
from dags_app.planning import names
from dags_app.states import DAGKind, DAGStatus, FileState, GroupStatus, RoundKind, RoundStatus
from lab.fleet.stories import Step, Story
from lab.fleet.world import BANNED, LOG_TAIL, MAINTENANCE, PLACES, Failure
from requests_app.states import RequestStatus

S = RequestStatus
SCHEDD = "schedd@fleet.lab"
SERVICE_NODES = 3  # landing, merge and cleanup of a group
_DAG_STATUS = {
    S.ACTIVE: DAGStatus.RUNNING, S.STOPPING: DAGStatus.RUNNING, S.PARTIAL: DAGStatus.PARTIAL,
    S.RESUBMITTING: DAGStatus.PARTIAL, S.HELD: DAGStatus.PARTIAL, S.COMPLETED: DAGStatus.COMPLETED,
    S.FAILED: DAGStatus.REMOVED, S.ABORTED: DAGStatus.REMOVED,
}  # fmt: skip
_SITES = [place for place in PLACES if place.name not in (BANNED, MAINTENANCE)]


@dataclass(slots=True)
class Work:
    """The rows of one request below its workflow."""

    rounds: list[Round]
    dags: list[DAG]
    groups: list[MergeGroup]
    files: list[InputFile]
    failures: list[FailureCluster]


def make_work(workflow: Workflow, story: Story, keys: Iterator[int], random: Random, now: datetime) -> Work:
    """Return the rounds a request has by now. `keys` gives the keys of groups."""
    work = Work([], [], [], [], [])
    pilot_at = story.since(S.PILOT_RUNNING)
    if pilot_at is not None:
        _add_pilot(work, workflow, story, pilot_at, keys, random)
    active_at = story.since(S.ACTIVE)
    if active_at is not None:
        _add_production(work, workflow, story, active_at, keys, random, now)
    if not workflow.generates:
        _add_files(work, workflow, story)
    return work


def _round(
    workflow: Workflow, *, number: int, kind: RoundKind, jobs: int, events: int, at: datetime
) -> Round:
    first = 1 + number * 10_000_000 if workflow.generates else None
    return Round(
        id=names.dag_id(f"round {workflow.pk}", round_number=number),
        workflow=workflow,
        number=number,
        kind=kind,
        jobs=jobs,
        input_events=events,
        estimate={
            "source": "pilot" if number else "hints",
            "memory_mb": workflow.memory_mb,
            "time_per_event_sec": workflow.time_per_event_sec,
            "size_per_event_kb": workflow.size_per_event_kb,
        },
        planned_files=jobs,
        first_event=first,
        last_event=first + events - 1 if first else None,
        created_at=at,
        sweep_at=None,
        directory_removed_at=at,  # no DAG was made
    )


def _dag(round_: Round, *, status: DAGStatus, number: int, at: datetime, end: datetime | None) -> DAG:
    key = names.dag_id(str(round_.workflow_id), round_number=100 * round_.number + number)
    live = status in (DAGStatus.RUNNING, DAGStatus.READY)
    return DAG(
        id=key,
        workflow_id=round_.workflow_id,
        round=round_,
        kind=DAGKind.RESCUE if number else DAGKind.FIRST,
        status=status,
        submit_dir=f"/nonexistent/fleet/{key.hex}",
        token=names.token(key),
        schedd_name=SCHEDD,
        dagman_cluster_id=10_000 + key.int % 90_000,
        created_at=at,
        submitted_at=None if status is DAGStatus.READY else at + timedelta(seconds=20),
        completed_at=None if live else end,
        exit_code={DAGStatus.COMPLETED: 0, DAGStatus.PARTIAL: 1}.get(status),
        observed_at=end,
    )


def _add_pilot(
    work: Work, workflow: Workflow, story: Story, at: datetime, keys: Iterator[int], random: Random
) -> None:
    events = 200
    round_ = _round(workflow, number=0, kind=RoundKind.PILOT, jobs=1, events=events, at=at)
    running = story.status is S.PILOT_RUNNING
    end = None if running else at + timedelta(minutes=random.randrange(12, 50))
    status = DAGStatus.RUNNING if running else DAGStatus.COMPLETED
    dag = _dag(round_, status=status, number=0, at=at, end=end)
    dag.total_nodes = 1 + SERVICE_NODES
    dag.nodes_done, dag.nodes_running = (1, 1) if running else (dag.total_nodes, 0)
    group = _group(round_, dag, 0, events=events, jobs=1, key=next(keys), random=random)
    if end is not None:
        round_.status, round_.resolved_at = RoundStatus.RESOLVED, end
        _collect(group, workflow, end, random)
    else:
        group.nodes_done = 1
    work.rounds.append(round_)
    work.dags.append(dag)
    work.groups.append(group)


def _group(
    round_: Round, dag: DAG, index: int, *, events: int, jobs: int, key: int, random: Random
) -> MergeGroup:
    place = random.choices(_SITES, weights=[one.slots * one.busy for one in _SITES])[0]
    return MergeGroup(
        id=key, round=round_, dag=dag, index=index, jobs=jobs, input_events=events, site=place.name,
        estimated_output_kb=events * 2,
    )  # fmt: skip


def _collect(group: MergeGroup, workflow: Workflow, at: datetime, random: Random) -> None:
    """Set the fields of a group whose outputs are stored."""
    wall = workflow.time_per_event_sec * random.lognormvariate(0, 0.18)
    per_job = wall * group.input_events / group.jobs
    group.status, group.finished_at = GroupStatus.COLLECTED, at
    group.nodes_done = group.jobs + SERVICE_NODES
    group.events_read = group.input_events
    group.events_written = int(group.input_events * random.uniform(0.93, 1.0))
    group.metrics = {
        "wall_time_per_event_sec": round(wall, 4),
        "peak_rss_mb": int(workflow.memory_mb * random.uniform(0.55, 0.97)),
        "output_kb_per_event": round(workflow.size_per_event_kb * random.lognormvariate(0, 0.15), 3),
        "cpu_efficiency": round(random.uniform(0.62, 0.96), 3),
        "jobs": group.jobs,
        "wall_time_sec": round(per_job * group.jobs, 1),
        "job_wall_p95_sec": round(per_job * random.uniform(1.1, 1.9), 1),
    }


def _add_production(
    work: Work,
    workflow: Workflow,
    story: Story,
    at: datetime,
    keys: Iterator[int],
    random: Random,
    now: datetime,
) -> None:
    """Add the production round with its DAG, and a rescue where the request was resubmitted."""
    events = story.events_per_job * story.jobs_per_group
    jobs = story.groups * story.jobs_per_group
    round_ = _round(
        workflow, number=1, kind=RoundKind.PRODUCTION, jobs=jobs, events=events * story.groups, at=at
    )
    last = story.steps[-1]
    running = story.status in (S.ACTIVE, S.STOPPING)
    end = now if running else last.at
    dags = list(_dags(round_, story, at, end))
    dag = dags[-1] if dags[-1].status is not DAGStatus.READY else dags[0]
    groups = [
        _group(round_, dag, index, events=events, jobs=story.jobs_per_group, key=next(keys), random=random)
        for index in range(story.groups)
    ]
    _advance(groups, workflow, story, at, end, random)
    if story.status is S.COMPLETED:
        round_.status, round_.resolved_at = RoundStatus.RESOLVED, end
    if story.failure is not None:
        work.failures += _clusters(dag, groups, story.failure, end, random)
    _count(dag, groups, running=running, random=random)
    if story.status is S.STOPPING:
        dag.stop_requested_at, dag.stop_reason = last.at, last.reason
    work.rounds.append(round_)
    work.dags += dags
    work.groups += groups


def _dags(round_: Round, story: Story, at: datetime, end: datetime) -> Iterator[DAG]:
    """Yield a DAG for each time the request became active, and the one being prepared."""
    starts = [step for step in story.steps if step.status is S.ACTIVE]
    before: DAG | None = None
    for number, step in enumerate(starts):
        final = number == len(starts) - 1
        status = _DAG_STATUS[story.status] if final else DAGStatus.PARTIAL
        dag = _dag(
            round_, status=status, number=number, at=step.at, end=end if final else _after(story, step)
        )
        dag.parent = before
        before = dag
        yield dag
    if story.status is S.RESUBMITTING:
        rescue = _dag(round_, status=DAGStatus.READY, number=len(starts), at=end, end=None)
        rescue.parent = before
        yield rescue


def _after(story: Story, step: Step) -> datetime:
    return next(one.at for one in story.steps if one.at > step.at)


def _advance(
    groups: Sequence[MergeGroup],
    workflow: Workflow,
    story: Story,
    at: datetime,
    end: datetime,
    random: Random,
) -> None:
    """Finish the first groups over the time since the start; some of the others run or have failed."""
    done = len(groups) if story.status is S.COMPLETED else int(len(groups) * story.progress)
    moments = sorted(random.uniform(0.05, 1.0) for _ in range(done))
    for group, moment in zip(groups, moments, strict=False):
        _collect(group, workflow, at + (end - at) * moment, random)
    left = groups[done:]
    if story.failure is not None:
        for group in left[: max(1, len(left) // 3)]:
            _fail(group, story.failure, end, random)
    if story.status in (S.ACTIVE, S.STOPPING):
        waiting = [group for group in left if group.status == GroupStatus.PLANNED]
        for group in waiting[: max(1, len(waiting) * 2 // 3)]:
            group.nodes_done = random.randrange(1, group.jobs + 1)


def _fail(group: MergeGroup, failure: Failure, at: datetime, random: Random) -> None:
    group.status, group.finished_at = GroupStatus.FAILED, at
    group.site = failure.site or group.site
    group.nodes_failed = random.randrange(1, max(2, group.jobs // 2))
    group.nodes_done = random.randrange(1, group.jobs - group.nodes_failed + 1)
    group.last_error = f"{group.nodes_failed} jobs failed with exit code {failure.exit_code}"


def _clusters(
    dag: DAG, groups: Sequence[MergeGroup], failure: Failure, at: datetime, random: Random
) -> Iterator[FailureCluster]:
    """Yield the main failure by site, as the diagnosis of a DAG stores it."""
    failed: dict[str, list[MergeGroup]] = {}
    for group in groups:
        if group.status == GroupStatus.FAILED:
            failed.setdefault(group.site, []).append(group)
    every = sum(group.nodes_failed for found in failed.values() for group in found)
    for site, found in failed.items():
        jobs = sum(group.nodes_failed for group in found)
        here = sum(group.jobs for group in found)
        elsewhere = sum(group.jobs for group in groups) - here
        yield FailureCluster(
            dag=dag, workflow_id=dag.workflow_id, fingerprint=fingerprint_of(str(failure.exit_code)),
            message=failure.message, exit_code=failure.exit_code, step=failure.step,
            category=failure.category, site=site, jobs=jobs, groups=[group.name for group in found][:50],
            jobs_at_site=max(here // 2, jobs) if failure.site else here, failed_elsewhere=every - jobs,
            jobs_elsewhere=max(elsewhere, every - jobs),
            memory_mb=3900 if failure.resource == MEMORY else 0, resource=failure.resource,
            limit=failure.limit, example=failure.message, node=f"{found[0].name}/{names.node_name(3)}",
            log_tail=LOG_TAIL.format(
                category=failure.category, message=failure.message, exit_code=failure.exit_code
            ),
            created_at=at - timedelta(minutes=random.randrange(1, 600)),
        )  # fmt: skip


def _count(dag: DAG, groups: Sequence[MergeGroup], *, running: bool, random: Random) -> None:
    """Set the DAG's node counts to the sums over its groups."""
    dag.total_nodes = sum(group.jobs + SERVICE_NODES for group in groups)
    dag.total_edges = 2 * dag.total_nodes
    dag.nodes_done = sum(group.nodes_done for group in groups)
    dag.nodes_failed = sum(group.nodes_failed for group in groups)
    dag.node_counts = {
        "Processing": sum(group.jobs for group in groups), "Merge": len(groups), "Cleanup": len(groups),
        "Landing": len(groups),
    }  # fmt: skip
    if running:
        begun = sum(
            group.jobs + SERVICE_NODES - group.nodes_done
            for group in groups
            if group.nodes_done and group.status == GroupStatus.PLANNED
        )
        dag.nodes_running = int(begun * 0.7)
        dag.nodes_held = begun // 40
        dag.nodes_idle = begun - dag.nodes_running - dag.nodes_held


def _add_files(work: Work, workflow: Workflow, story: Story) -> None:
    """Add two input files per group, and a few that are excluded or not planned yet."""
    dataset = str(workflow.input_dataset)
    production = next((one for one in work.rounds if one.kind == RoundKind.PRODUCTION), None)
    groups = {group.index: group for group in work.groups if group.round is production}
    for number in range(2 * story.groups):
        index = number // 2
        state, round_ = FileState.FRESH, None
        if production is not None:
            state, round_ = _state_of(groups[index], number), production
        held = state in (FileState.ASSIGNED, FileState.PROCESSED)
        unique = UUID(int=story.number << 64 | number).hex
        work.files.append(
            InputFile(
                workflow=workflow, lfn=f"{names.dataset_directory('/store/data', dataset)}/{unique}.root",
                block_name=f"{dataset}#{number // 20:04d}", size_bytes=3_400_000_000 + number * 7_000_000,
                events=story.events_per_job * story.jobs_per_group // 2, lumis=[[382010, number, number]],
                locations=["T1_US_FNAL_Disk", "T2_CH_CERN"], state=state, attempts=int(held),
                round=round_ if held else None, first_group=index if held else None,
                last_group=index if held else None,
                excluded_reason="every replica is bad" if state is FileState.EXCLUDED else "",
            )
        )  # fmt: skip


def _state_of(group: MergeGroup, number: int) -> FileState:
    if group.status == GroupStatus.COLLECTED:
        return FileState.PROCESSED
    if group.status == GroupStatus.FAILED:
        return FileState.EXCLUDED if number % 17 == 0 else FileState.ATTEMPTED
    return FileState.ASSIGNED
