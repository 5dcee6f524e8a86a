"""The schedds the contract is tested against: in memory, in virtual time, and of a real pool.

A peer brings a DAG of one group to a point of its life: the fake's by hand, the real one by waiting for it,
the simulated one by moving its clock.
"""

from __future__ import annotations

import json
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from condor.fake import FakeSchedd
from condor.ports import ScheddPort
from condor.schedd import Schedd
from condor.types import DagmanAd, JobStatus
from lab.simulator.clock import VirtualClock
from lab.simulator.group_run import GroupRun
from lab.simulator.pool import Job, Outcome, Pool
from lab.simulator.schedd import SimulatedSchedd
from tests.pool_dags import Bench, pool_sites

GROUP, SLEEPER = "mg_000000", "proc_000001"
NOWHERE = ("T3_XX_Nowhere", "T3_YY_Nowhere")  # no slot of the pool is there


class Peer(ABC):
    """A schedd and the means to bring its DAGs where a test needs them."""

    schedd: ScheddPort
    bench: Bench

    def write(self, *, sleeps: bool = False, sites: tuple[str, ...] = ()) -> Path:
        """Write a DAG; its second job sleeps, or its landing may run at these sites only."""
        layout = self.bench.layout({SLEEPER: "sleep"} if sleeps else {})
        if sites:
            layout = self.bench.layout(groups=[replace(group, sites=sites) for group in layout.groups])
        return self.bench.write(layout).dag_file

    def submit(self, dag_file: Path) -> str:
        name = self.bench.new_name()
        self.schedd.submit_dag(dag_file, name)
        return name

    @abstractmethod
    def until_landing_waits(self, name: str) -> None: ...

    @abstractmethod
    def until_sleeper_runs(self, name: str) -> None: ...

    @abstractmethod
    def until_ended(self, name: str) -> DagmanAd: ...

    @abstractmethod
    def until_empty(self, name: str) -> None: ...

    @abstractmethod
    def until_groups_run(self, name: str, number: int) -> None: ...

    @abstractmethod
    def clear(self) -> None:
        """Remove what the tests left in the queue."""


class FakePeer(Peer):
    """The schedd in memory: what DAGMan would do is done here."""

    def __init__(self, directory: Path) -> None:
        self.schedd = self.fake = FakeSchedd()
        self.bench = Bench(self.fake, directory, ("T2_CH_CERN", "T2_DE_DESY"))

    def until_landing_waits(self, name: str) -> None:
        self.fake.start_group(name, GROUP)
        self.fake.start_job(
            name, GROUP, "landing", status=JobStatus.IDLE, role="landing", site=",".join(NOWHERE),
            since=time.time() - 10,
        )  # fmt: skip

    def until_sleeper_runs(self, name: str) -> None:
        self.fake.start_group(name, GROUP)
        self.fake.start_job(name, GROUP, SLEEPER, site=self.bench.sites[0])

    def until_ended(self, name: str) -> DagmanAd:
        if self.fake.jobs(name):
            self.fake.finish_dag(name)
        return self.bench.finish(name)

    def until_empty(self, name: str) -> None:
        assert not self.fake.jobs(name)

    def until_groups_run(self, name: str, number: int) -> None:
        assert self.fake.query_dags([name])[name].groups_running == number

    def clear(self) -> None: ...


class RealPeer(Peer):
    """The first schedd of the pool that CONDOR_CONFIG names."""

    def __init__(self, directory: Path, sites: tuple[str, ...] = ()) -> None:
        self.schedd = self.real = Schedd()
        self.bench = Bench(self.real, directory, sites or pool_sites())

    def until_landing_waits(self, name: str) -> None:
        self.bench.wait(lambda: self.real.stuck_jobs([name], idle_sec=0))

    def until_sleeper_runs(self, name: str) -> None:
        """Wait until the sleeper's start is known, which follows the start itself."""
        self.bench.wait(lambda: self._running(name) == [SLEEPER] == sorted(self.bench.running(name)))

    def _running(self, name: str) -> list[str]:
        return [job.node for job in self.real.running_jobs([name], longer_than_sec=0)]

    def until_ended(self, name: str) -> DagmanAd:
        return self.bench.finish(name)

    def until_empty(self, name: str) -> None:
        self.bench.wait(lambda: self.bench.gone(name))

    def until_groups_run(self, name: str, number: int) -> None:
        self.bench.wait(lambda: self.real.query_dags([name])[name].groups_running == number)

    def clear(self) -> None:
        self.bench.clear()


class ScriptedJobs:
    """Jobs of a simulated pool that behave as their group's jobs.json says."""

    def outcome(self, job: Job) -> Outcome:
        group = Path(job.ad["Iwd"].removesuffix("/reports"))
        behaviour = json.loads((group / "jobs.json").read_bytes()).get(job.ad["DAGNodeName"])
        return Outcome(float("inf") if behaviour == "sleep" else 1.0)

    def post(self, group: GroupRun, job: Job, outcome: Outcome) -> int:
        return outcome.exit_code

    def cooloff_sec(self, group: GroupRun, node: str) -> float:
        return 0.0


class SimulatedPeer(Peer):
    """The schedd, DAGMan and pool in virtual time."""

    def __init__(self, directory: Path) -> None:
        sites, jobs = ("T2_CH_CERN", "T2_DE_DESY"), ScriptedJobs()
        self.clock = VirtualClock(time.time())
        pool = Pool(self.clock, dict.fromkeys(sites, 4), outcome=jobs.outcome)
        self.schedd = self.simulated = SimulatedSchedd(self.clock, pool, jobs)
        self.bench = Bench(self.simulated, directory, sites)

    def _until(self, reached: Callable[[], object]) -> None:
        while not reached():
            assert self.clock.next_event_at < float("inf"), "it does not happen"
            self.clock.run_until(self.clock.next_event_at)

    def until_landing_waits(self, name: str) -> None:
        self._until(lambda: self.simulated.working_groups([name]))
        self.clock.run_until(self.clock.now + 10)

    def until_sleeper_runs(self, name: str) -> None:
        def nodes() -> list[str]:
            jobs = self.simulated.jobs(name)
            return [ad["DAGNodeName"] for ad in jobs if ad.get("DAGNodeName") and ad["JobStatus"] == 2]

        self._until(lambda: nodes() == [SLEEPER])

    def until_ended(self, name: str) -> DagmanAd:
        self._until(lambda: not self.simulated.jobs(name))
        return self.bench.finish(name)

    def until_empty(self, name: str) -> None:
        assert not self.simulated.jobs(name)

    def until_groups_run(self, name: str, number: int) -> None:
        self._until(lambda: self.simulated.query_dags([name])[name].groups_running == number)

    def clear(self) -> None: ...


PEERS: dict[str, type[FakePeer] | type[RealPeer] | type[SimulatedPeer]] = {
    "fake": FakePeer,
    "real": RealPeer,
    "simulated": SimulatedPeer,
}
