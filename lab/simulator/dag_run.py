"""The outer DAGMan of a DAG: starts groups within its limits, writes status and rescue files."""

from __future__ import annotations

from collections import deque
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from condor.dagtext import OUTER_DAG
from condor.fake_queue import Ad
from condor.schedd import MAX_GROUPS
from condor.types import JobStatus, NodeState
from lab.simulator.dagman_files import read_outer, read_rescue, write_metrics, write_rescue, write_status
from lab.simulator.group_run import GroupRun
from lab.simulator.pool import Job, Outcome

if TYPE_CHECKING:
    from lab.simulator.schedd import SimulatedSchedd


class Behaviour(Protocol):
    """Behaviour of jobs and of their POST scripts."""

    def outcome(self, job: Job) -> Outcome:
        """Return how this attempt of the job ends."""
        ...

    def post(self, group: GroupRun, job: Job, outcome: Outcome) -> int:
        """Apply the effects of an ended job, and return the exit status of its POST script."""
        ...

    def cooloff_sec(self, group: GroupRun, node: str) -> float:
        """Return how long the node's PRE defers its next attempt."""
        ...


class DagRun:
    """A queued DAG, from its submission to its end or removal."""

    def __init__(
        self, schedd: SimulatedSchedd, token: str, directory: Path, ad: Ad, behaviour: Behaviour
    ) -> None:
        self.schedd, self.token, self.directory, self.ad = schedd, token, directory, ad
        self.behaviour = behaviour
        self.names, self.limit = read_outer(directory)
        self.done = read_rescue(directory / OUTER_DAG) & set(self.names)
        self.failed: set[str] = set()
        self.groups: dict[str, GroupRun] = {}
        self.waiting = deque(name for name in self.names if name not in self.done)
        self.over = False
        self.changed = True  # since the status file was written
        # A lock file makes DAGMan resume after a crash and wait for the jobs in its log, which no queue has.
        self.recovers = (directory / f"{OUTER_DAG}.lock").exists()
        for name in (f"{OUTER_DAG}.condor.sub", f"{OUTER_DAG}.lock", f"{OUTER_DAG}.dagman.out"):
            (directory / name).touch()

    @property
    def held(self) -> bool:
        return bool(self.ad["JobStatus"] == JobStatus.HELD)

    def start_groups(self) -> None:
        """Start groups up to the limits of the DAG and of the schedd; end if there are none left."""
        if self.over or self.held or self.recovers:
            return
        most = min(self.limit, int(self.ad.get(MAX_GROUPS, self.limit)))
        while self.waiting and len(self.groups) < most and self.schedd.has_room():
            name = self.waiting.popleft()
            self.changed = True
            self.groups[name] = GroupRun(self, name, self.schedd.queue_group(self, name))
        if not self.groups and not self.waiting:
            self._end(0 if len(self.done) == len(self.names) else 1)

    def group_ended(self, group: GroupRun, exit_code: int) -> None:
        self.groups.pop(group.name, None)
        self.schedd.group_left(group.ad)
        (self.done if exit_code == 0 else self.failed).add(group.name)
        self.changed = True
        if exit_code == 2:
            self._abort()
        elif not self.over:
            self.schedd.clock.after(0, self.start_groups)
            self.schedd.room_was_made()

    def _abort(self) -> None:
        if not self.over:
            for group in list(self.groups.values()):
                group.remove(rescue=True)
                self.schedd.group_left(group.ad)
            self.groups.clear()
            self._end(1)

    def _end(self, exit_code: int) -> None:
        self.over = True
        now = self.schedd.clock.now
        if exit_code:
            write_rescue(self.directory / OUTER_DAG, self.done)
        self.write_status()
        write_metrics(
            self.directory / OUTER_DAG, exit_code=exit_code, done=len(self.done), failed=len(self.failed),
            total=len(self.names), now=now,
        )  # fmt: skip
        (self.directory / f"{OUTER_DAG}.lock").unlink(missing_ok=True)
        self._publish()
        self.schedd.dag_ended(self, exit_code)

    def remove(self, *, rescue: bool) -> None:
        """End because of a removal. DAGMans that run write rescue files."""
        self.over = True
        for group in self.groups.values():
            group.remove(rescue=rescue and not group.held)
        if rescue and not self.held:
            self.write_status()
            write_rescue(self.directory / OUTER_DAG, self.done)
            (self.directory / f"{OUTER_DAG}.lock").unlink(missing_ok=True)

    def write_status(self) -> None:
        """Write the status file if something has changed."""
        if self.changed:
            self.changed = False
            states = [(name, self._state(name)) for name in self.names]
            write_status(self.directory / OUTER_DAG, states, now=self.schedd.clock.now)

    def _state(self, name: str) -> NodeState:
        if name in self.done:
            return NodeState.DONE
        if name in self.failed:
            return NodeState.ERROR
        return NodeState.SUBMITTED if name in self.groups else NodeState.READY

    def _publish(self) -> None:
        self.ad |= {
            "DAG_NodesTotal": len(self.names),
            "DAG_NodesDone": len(self.done),
            "DAG_NodesFailed": len(self.failed),
            "DAG_NodesQueued": len(self.groups),
        }
        for group in self.groups.values():
            running = sum(1 for job in group.jobs.values() if job.site)
            group.ad |= {"DAG_JobsRunning": running, "DAG_JobsIdle": len(group.jobs) - running}

    def refresh(self) -> None:
        """Bring the ads and the status file up to date, as DAGMan does every few seconds."""
        if not self.over:
            self._publish()
            self.write_status()
