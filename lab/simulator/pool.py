"""The simulated pool: sites with slots, matchmaking in cycles, durations and failures of jobs."""

from __future__ import annotations

import hashlib
import heapq
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from itertools import count

from condor.fake_queue import Ad
from condor.types import JobStatus
from lab.simulator.clock import VirtualClock
from sandbox.failure import NO_VALID_FJR, PAYLOAD, STAGE_OUT, WRAPPER


@dataclass(slots=True)
class Job:
    """A queued or running job. `ended` is called with its outcome when it has run."""

    ad: Ad
    ended: Callable[[Job, Outcome], None]
    attempt: int = 0
    submission: int = 1  # of its DAG's directory, counted from 1
    site: str = ""
    started_at: float = 0.0
    run: int = 0  # counts starts and ends, so that an outdated event is recognised

    @property
    def waits(self) -> bool:
        return bool(self.ad["JobStatus"] == JobStatus.IDLE)

    @property
    def sites(self) -> list[str]:
        return str(self.ad["DESIRED_Sites"]).split(",")


@dataclass(frozen=True, slots=True)
class Outcome:
    """End of a job: after `seconds` with this exit code, or evicted, so that it starts again.

    `source` reports the failure.
    """

    seconds: float
    exit_code: int = 0
    evicted: bool = False
    source: str = PAYLOAD


@dataclass(frozen=True, slots=True)
class Laws:
    """Durations and failures of jobs, drawn from the seed and the job's name, so that they are reproducible.

    Fractions are of jobs. `bad_sites` are fractions of failing jobs by site, whose stage-out fails, as the
    wrapper reports. A fraction `slow_slots` takes `slow_factor` times as long. With `lasting`, an attempt
    that failed fails again after a rescue.
    """

    seed: int = 0
    seconds: Mapping[str, float] = field(
        default_factory=lambda: {"landing": 5.0, "processing": 600.0, "merge": 60.0, "cleanup": 10.0}
    )
    spread: float = 0.3
    failing: float = 0.0
    bad_sites: Mapping[str, float] = field(default_factory=dict)
    exit_code: int = NO_VALID_FJR
    evicted: float = 0.0
    slow_slots: float = 0.0
    slow_factor: float = 10.0
    lasting: bool = True

    def outcome(self, job: Job) -> Outcome:
        """Return how this attempt of the job ends at its site."""
        role = job.ad["CMS_NodeRole"]
        group = "/".join(job.ad["Iwd"].removesuffix("/reports").rsplit("/", 2)[1:])
        name = f"{group} {job.ad['DAGNodeName']} {job.attempt}"
        if not self.lasting:
            name += f" {job.submission}"
        seconds = self.seconds[role] * (1 + self.spread * (2 * self._draw(name, "time") - 1))
        if self.slow_slots and role != "landing" and self._draw(name, "slot") < self.slow_slots:
            seconds *= self.slow_factor
        if self.evicted and role != "landing" and self._draw(f"{name} {job.run}", "evict") < self.evicted:
            return Outcome(seconds * self._draw(name, "part"), evicted=True)
        bad = self.bad_sites.get(job.site, 0.0)
        failing = max(self.failing, bad)
        if failing and role != "landing" and self._draw(name, "fail") < failing:
            code, source = (STAGE_OUT, WRAPPER) if bad else (self.exit_code, PAYLOAD)
            return Outcome(seconds * self._draw(name, "part"), exit_code=code, source=source)
        return Outcome(seconds)

    def _draw(self, name: str, what: str) -> float:
        digest = hashlib.blake2b(f"{self.seed} {name} {what}".encode(), digest_size=4).digest()
        return int.from_bytes(digest) / 2**32


class Pool:
    """Slots of sites. Jobs that wait are matched once per cycle, the highest priority first."""

    def __init__(
        self,
        clock: VirtualClock,
        slots: Mapping[str, int],
        *,
        outcome: Callable[[Job], Outcome],
        cycle_sec: float = 5.0,
    ) -> None:
        self.clock, self.slots, self.cycle_sec = clock, dict(slots), cycle_sec
        self.free = dict(slots)
        self.busy_sec = 0.0
        self.wasted_sec = 0.0
        self._outcome = outcome
        self._waiting: dict[str, list[tuple[int, int, Job]]] = {site: [] for site in slots}
        self._numbers = count()
        self._negotiates = False

    def submit(self, job: Job) -> None:
        """Queue the job for a slot at its sites. Repeated after its priority or sites have changed."""
        number = next(self._numbers)
        for site in job.sites:
            if site in self._waiting:
                heapq.heappush(self._waiting[site], (-int(job.ad.get("JobPrio", 0)), number, job))
        self._soon()

    def stop(self, jobs: Iterable[Job]) -> None:
        """End running jobs without an outcome, and remove waiting ones."""
        for job in jobs:
            if job.site:
                self._leave(job)
            job.run += 1

    def _soon(self) -> None:
        if not self._negotiates:
            self._negotiates = True
            self.clock.after(self.cycle_sec - self.clock.now % self.cycle_sec, self._negotiate)

    def _negotiate(self) -> None:
        """Start jobs, one per site in turn, the site with most free slots first."""
        self._negotiates = False
        while sites := [site for site, waiting in self._waiting.items() if waiting and self.free[site] > 0]:
            for site in sorted(sites, key=lambda one: (-self.free[one], one)):
                self._start_next(site)

    def _start_next(self, site: str) -> None:
        waiting = self._waiting[site]
        while waiting:
            _, _, job = heapq.heappop(waiting)
            if job.waits and not job.site and site in job.sites:
                self._start(job, site)
                return

    def _start(self, job: Job, site: str) -> None:
        now = self.clock.now
        self.free[site] -= 1
        job.site, job.started_at = site, now
        job.run += 1
        job.ad |= {"JobStatus": int(JobStatus.RUNNING), "EnteredCurrentStatus": now}
        job.ad["JobCurrentStartExecutingDate"] = now
        outcome, run = self._outcome(job), job.run
        if outcome.seconds != float("inf"):
            self.clock.after(outcome.seconds, lambda: self._end(job, run, outcome))

    def _end(self, job: Job, run: int, outcome: Outcome) -> None:
        if job.run != run:
            return  # it was removed meanwhile
        if outcome.evicted:
            self.wasted_sec += self.clock.now - job.started_at
            self._leave(job)
            job.ad |= {"JobStatus": int(JobStatus.IDLE), "EnteredCurrentStatus": self.clock.now}
            self.submit(job)
            return
        if outcome.exit_code:
            self.wasted_sec += self.clock.now - job.started_at
        site = job.site
        self._leave(job)
        job.site = site
        job.run += 1
        job.ended(job, outcome)

    def _leave(self, job: Job) -> None:
        self.free[job.site] += 1
        self.busy_sec += self.clock.now - job.started_at
        if self._waiting[job.site]:
            self._soon()
        job.site = ""
