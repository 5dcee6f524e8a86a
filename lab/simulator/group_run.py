"""The DAGMan of one merge group: landing, processing, merge, cleanup, with retries and deferred starts."""

from __future__ import annotations

from collections import Counter, deque
from pathlib import Path
from typing import TYPE_CHECKING

from condor.dag_edits import LANDING_SITES
from condor.dagtext import ABORT_EXIT, GROUP_DAG, NEVER_RETRY_EXIT
from condor.fake_queue import Ad
from condor.types import JobStatus, NodeState
from lab.simulator.dagman_files import read_group, read_rescue, write_rescue, write_status
from lab.simulator.pool import Job, Outcome
from sandbox.atomic import replacing
from sandbox.elect_site import ELECTED_SITE, REPORTS, elected_site

if TYPE_CHECKING:
    from lab.simulator.dag_run import DagRun

LANDING, MERGE, CLEANUP = "landing", "merge", "cleanup"
CATEGORY = {"processing": "Processing", MERGE: "Merge", CLEANUP: "Cleanup"}


def role_of(node: str) -> str:
    return node if node in (LANDING, MERGE, CLEANUP) else "processing"


class GroupRun:
    """A running group. It notifies its DAG when it has ended."""

    def __init__(self, dag: DagRun, name: str, ad: Ad) -> None:
        self.dag, self.name, self.ad = dag, name, ad
        self.directory: Path = dag.directory / name
        self.file = read_group(self.directory)
        self.done = read_rescue(self.directory / GROUP_DAG) & {LANDING, *self.file.nodes, MERGE, CLEANUP}
        self.failed: set[str] = set()
        self.walls_sec: list[float] = []  # of processing jobs that have succeeded
        self.site = ""  # where the group has landed, once it is known
        self.attempts: Counter[str] = Counter()
        self.jobs: dict[str, Job] = {}
        self.ready: deque[str] = deque()
        self.cooling = 0
        self.unseen: list[tuple[Job, Outcome]] = []  # ends that a held DAGMan has not seen yet
        self.aborted = False
        self.over = False
        (self.directory / f"{GROUP_DAG}.dagman.out").touch()
        (self.directory / f"{GROUP_DAG}.lock").touch()
        self._publish()
        self._go_on()

    @property
    def held(self) -> bool:
        return bool(self.ad["JobStatus"] == JobStatus.HELD)

    def _go_on(self) -> None:
        """Submit the nodes that have become ready, or end."""
        if self.over:
            return
        if LANDING not in self.done:
            self._start_once(LANDING)
        else:
            self._start_processing()
            if self._processed():
                if MERGE not in self.done:
                    self._start_once(MERGE)
                elif CLEANUP not in self.done:
                    self._start_once(CLEANUP)
        if self.aborted or not (self.jobs or self.cooling or self.ready):
            self._end()

    def _processed(self) -> bool:
        others = sum(one in self.done for one in (LANDING, MERGE, CLEANUP))
        return len(self.done) - others == len(self.file.nodes)

    def _start_once(self, node: str) -> None:
        if node not in self.jobs and node not in self.failed and not self.cooling:
            self._start(node)

    def _start_processing(self) -> None:
        if not self.ready and not self.jobs and not self.cooling:
            over = self.done | self.failed
            self.ready.extend(one for one in self.file.nodes if one not in over)
        most = self.file.max_jobs.get("Processing", 5000)
        while self.ready and len(self.jobs) < most:
            self._start(self.ready.popleft())

    def _start(self, node: str) -> None:
        """Run PRE and submit the node's job."""
        sites = self.site
        if node == LANDING:
            sites = self._landing_sites()
            if sites == "-":
                self._later(self.file.defer_sec, node)
                return
        elif not sites:
            sites = self.site = elected_site(self.directory)
        reports = self.directory if node == LANDING else self.directory / REPORTS
        ad = self.dag.schedd.queue_job(
            self.dag, node=node, role=role_of(node), sites=sites, directory=str(reports),
            attempt=self.attempts[node],
        )  # fmt: skip
        submission = self.dag.schedd.submitted_directories[str(self.dag.directory)]
        job = Job(ad, self._on_end, attempt=self.attempts[node], submission=submission)
        self.jobs[node] = job
        self.dag.schedd.pool.submit(job)

    def _landing_sites(self) -> str:
        try:
            lines = (self.dag.directory / LANDING_SITES).read_text("ascii").splitlines()
        except FileNotFoundError:
            return self.file.sites
        named = dict(line.split(" ", 1) for line in lines)
        return named.get(self.name, self.file.sites)

    def _later(self, seconds: float, node: str) -> None:
        self.cooling += 1

        def again() -> None:
            self.cooling -= 1
            if self.over:
                return
            if node in self.file.nodes:
                self.ready.append(node)
            self._go_on()

        self.dag.schedd.clock.after(seconds, again)

    def _on_end(self, job: Job, outcome: Outcome) -> None:
        self.dag.schedd.job_left(job.ad)
        if self.over:
            return
        if self.held:
            self.unseen.append((job, outcome))
            return
        self._judge(job, outcome)

    def wake(self) -> None:
        """Process the events that occurred while this DAGMan was held."""
        unseen, self.unseen = self.unseen, []
        for job, outcome in unseen:
            self._judge(job, outcome)

    def _judge(self, job: Job, outcome: Outcome) -> None:
        """Run POST: the node is done, is retried, has failed, or ends the whole DAG."""
        node = job.ad["DAGNodeName"]
        self.jobs.pop(node, None)
        status = self._post(job, outcome)
        if status == 0:
            self.done.add(node)
        elif status == ABORT_EXIT:
            self.failed.add(node)
            self.aborted = True
        elif status == NEVER_RETRY_EXIT or self.attempts[node] >= self.file.retries.get(node, 0):
            self.failed.add(node)
        else:
            wait = self.dag.behaviour.cooloff_sec(self, node)
            self.attempts[node] += 1
            self._later(wait, node)
        self._publish()
        self._go_on()

    def _post(self, job: Job, outcome: Outcome) -> int:
        if job.ad["DAGNodeName"] != LANDING:
            return self.dag.behaviour.post(self, job, outcome)
        allowed = self._landing_sites().split(",")
        if outcome.exit_code or job.site not in allowed:
            return 1
        (self.directory / REPORTS).mkdir(exist_ok=True)
        with replacing(self.directory / ELECTED_SITE) as handle:
            handle.write(f"elected_site = {job.site}\n".encode())
        self.site = job.site
        return 0

    def _publish(self) -> None:
        self.ad |= {"DAG_NodesDone": len(self.done), "DAG_NodesFailed": len(self.failed)}

    def _end(self) -> None:
        complete = CLEANUP in self.done
        if not complete:
            self._leave_files()
        (self.directory / f"{GROUP_DAG}.lock").unlink(missing_ok=True)
        self._stop_jobs()
        self.over = True
        self.dag.group_ended(self, 0 if complete else 2 if self.aborted else 1)

    def _leave_files(self) -> None:
        names = (LANDING, *self.file.nodes, MERGE, CLEANUP)
        states = [(name, self._state(name)) for name in names]
        write_status(self.directory / GROUP_DAG, states, now=self.dag.schedd.clock.now)
        write_rescue(self.directory / GROUP_DAG, self.done)

    def _state(self, node: str) -> NodeState:
        if node in self.done:
            return NodeState.DONE
        return NodeState.ERROR if node in self.failed else NodeState.NOT_READY

    def remove(self, *, rescue: bool) -> None:
        """End because of a removal; write a rescue file if this DAGMan runs."""
        if self.over:
            return
        self.over = True
        if rescue:
            self._leave_files()
            (self.directory / f"{GROUP_DAG}.lock").unlink(missing_ok=True)
        self._stop_jobs()

    def _stop_jobs(self) -> None:
        self.dag.schedd.pool.stop(self.jobs.values())
        for job in self.jobs.values():
            self.dag.schedd.job_left(job.ad)
        self.jobs.clear()

    def job_removed(self, job: Job) -> None:
        """A job was removed by itself: its node fails, POST decides about a retry."""
        self.dag.schedd.pool.stop([job])
        self._on_end(job, Outcome(0.0, exit_code=-9))
