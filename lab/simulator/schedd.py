"""A schedd in virtual time: its DAGs run on the simulated pool and write real files."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from condor.fake import FakeSchedd
from condor.fake_queue import DAGMAN, JOB, Ad
from condor.submitfile import RETRY_BOOST, boost
from condor.types import DagmanAd, JobStatus, RunningJob
from lab.simulator.clock import VirtualClock
from lab.simulator.dag_run import Behaviour, DagRun
from lab.simulator.pool import Job, Pool

WRITES = frozenset({
    "submit_dag", "remove_jobs", "remove_dag", "clear_batch", "hold_dag", "release_dag", "set_priority",
    "place_landings", "limit_groups",
})  # fmt: skip


class SimulatedSchedd(FakeSchedd):
    """The schedd in memory with simulated DAGMans. `on_call` sees every call and may raise an error."""

    def __init__(
        self,
        clock: VirtualClock,
        pool: Pool,
        behaviour: Behaviour,
        *,
        name: str = "simulated@pool",
        on_call: Callable[[str], None] = lambda _operation: None,
    ) -> None:
        super().__init__(name, now=clock.time)
        self.clock, self.pool, self.behaviour = clock, pool, behaviour
        self.on_call = on_call
        self.runs: dict[str, DagRun] = {}
        self.submissions: Counter[str] = Counter()
        self.live_directories: Counter[str] = Counter()
        self.submitted_directories: Counter[str] = Counter()
        self.most_live = 0
        self.cleared: list[str] = []  # DAGs that were running when their batch was cleared
        self.full = False  # a DAGMan waits for the limits of the schedd
        self.news = False  # since the last query of WMS2: a group or DAG has started or ended

    # Called by DAGMans.

    def has_room(self) -> bool:
        """Return whether another DAGMan may run, by the limits of the schedd."""
        limits = [limit for limit in (self.per_owner, self.total) if limit is not None]
        room = not limits or self._queue.count(DAGMAN) + self.other_dagmans < min(limits)
        self.full = self.full or not room
        return room

    def room_was_made(self) -> None:
        """Start groups of DAGs that waited for the schedd's limits."""
        if not self.full:
            return
        self.full = False
        for run in list(self.runs.values()):
            if run.waiting and not run.over:
                self.clock.after(0, run.start_groups)

    def queue_group(self, run: DagRun, name: str) -> Ad:
        return self._put_group(run.token, name, DAG_NodesDone=0)

    def queue_job(self, run: DagRun, *, node: str, role: str, sites: str, directory: str, attempt: int) -> Ad:
        priority = int(run.ad.get("JobPrio", 0)) + boost(role) + RETRY_BOOST * min(attempt, 1)
        return self._put(
            run.token,
            {
                "JobUniverse": JOB,
                "JobStatus": int(JobStatus.IDLE),
                "Iwd": directory,
                "DAGNodeName": node,
                "CMS_NodeRole": role,
                "DESIRED_Sites": sites,
                "JobPrio": priority,
            },
        )

    def job_left(self, ad: Ad) -> None:
        self._queue.remove([ad])

    def group_left(self, ad: Ad) -> None:
        self.news = True
        self._queue.remove([ad])

    def dag_ended(self, run: DagRun, exit_code: int) -> None:
        self.news = True
        self.runs.pop(run.token, None)
        self.live_directories[str(run.directory)] -= 1
        self._leave(self._batch(run.token), JobStatus.COMPLETED, ExitCode=exit_code)
        self.room_was_made()

    # Faults.

    def kill_dagman(self, token: str) -> None:
        """Kill the outer DAGMan and its groups like SIGKILL: no rescue files, jobs stay in the queue."""
        run = self.runs.pop(token, None)
        if run is None:
            return
        self.news = run.over = True
        self.live_directories[str(run.directory)] -= 1
        for group in run.groups.values():
            group.over = True
        dagmans = self._all(JobBatchName=token, JobUniverse=DAGMAN)
        self._leave(dagmans, JobStatus.COMPLETED, ExitSignal=9)

    # The port.

    def _asked(self, operation: str, **arguments: Any) -> None:
        self.on_call(operation)
        super()._asked(operation, **arguments)
        self.calls.clear()

    def submit_dag(
        self, dag_file: Path, batch_name: str, *, priority: int = 0, max_groups: int | None = None
    ) -> int:
        known = set(self.runs)
        try:
            return super().submit_dag(dag_file, batch_name, priority=priority, max_groups=max_groups)
        finally:
            if batch_name not in known and self._batch(batch_name):
                self._begin(batch_name, dag_file.parent)

    def _begin(self, token: str, directory: Path) -> None:
        self.news = True
        self.submissions[token] += 1
        self.live_directories[str(directory)] += 1
        self.submitted_directories[str(directory)] += 1
        self.most_live = max(self.most_live, self.live_directories[str(directory)])
        run = DagRun(self, token, directory, self._outer(token), self.behaviour)
        self.runs[token] = run
        self.clock.after(1.0, run.start_groups)

    def query_dags(self, batch_names: Iterable[str] | None = None) -> Mapping[str, DagmanAd]:
        for run in self.runs.values():
            run.refresh()
        return super().query_dags(batch_names)

    def running_jobs(self, batch_names: Iterable[str], *, longer_than_sec: int) -> list[RunningJob]:
        found = super().running_jobs(batch_names, longer_than_sec=longer_than_sec)
        return [replace(job, cpu_sec=self.clock.now - job.started_at.timestamp()) for job in found]

    def remove_jobs(self, batch_name: str, cluster_ids: Collection[int], *, reason: str) -> int:
        jobs = {job.ad["ClusterId"]: (group, job) for group, job in self._jobs(batch_name)}
        removed = super().remove_jobs(batch_name, cluster_ids, reason=reason)
        for cluster in cluster_ids:
            if cluster in jobs and jobs[cluster][1].site:
                group, job = jobs[cluster]
                group.job_removed(job)
        return removed

    def remove_dag(self, batch_name: str, *, reason: str, resumable: bool = True) -> int:
        run = self.runs.get(batch_name)
        writes = run is not None and (resumable or not run.held)  # the real one releases held DAGMans first
        removed = super().remove_dag(batch_name, reason=reason, resumable=resumable)
        self._stop(batch_name, rescue=writes)
        return removed

    def clear_batch(self, batch_name: str, *, reason: str) -> int:
        if batch_name in self.runs:
            self.cleared.append(batch_name)
        found = super().clear_batch(batch_name, reason=reason)
        self._stop(batch_name, rescue=True)
        return found

    def _stop(self, token: str, *, rescue: bool) -> None:
        run = self.runs.pop(token, None)
        if run is not None:
            self.news = True
            self.live_directories[str(run.directory)] -= 1
            run.remove(rescue=rescue)
            self.room_was_made()

    def release_dag(self, batch_name: str, *, reason: str) -> int:
        released = super().release_dag(batch_name, reason=reason)
        run = self.runs.get(batch_name)
        if run is not None and released:
            for group in list(run.groups.values()):
                group.wake()
            self.clock.after(0, run.start_groups)
        return released

    def set_priority(self, batch_name: str, priority: int) -> int:
        changed = super().set_priority(batch_name, priority)
        self._match_again(batch_name)
        return changed

    def place_landings(self, batch_name: str, sites: Mapping[str, Collection[str]]) -> int:
        changed = super().place_landings(batch_name, sites)
        if changed:
            self._match_again(batch_name)
        return changed

    def limit_groups(self, batch_names: Iterable[str], max_groups: int) -> int:
        names = list(batch_names)
        changed = super().limit_groups(names, max_groups)
        for name in names if changed else ():
            if name in self.runs:
                self.clock.after(0, self.runs[name].start_groups)
        return changed

    def _match_again(self, token: str) -> None:
        for _, job in self._jobs(token):
            if job.waits:
                self.pool.submit(job)

    def _jobs(self, token: str) -> list[tuple[Any, Job]]:
        run = self.runs.get(token)
        if run is None:
            return []
        return [(group, job) for group in run.groups.values() for job in group.jobs.values()]
