"""Fault schedules: which faults occur in a simulation and when, derived from its seed.

A fault occurs at the number of an effect, message, call or step. So a schedule without some of its faults is
a schedule as well, and a failing one can be minimised.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from random import Random

from lab.simulator.pool import Laws


class Kind(StrEnum):
    """Kinds of faults. `at` counts the events named in the comment."""

    CRASH = "crash"  # effect: the worker is killed
    MEANWHILE = "meanwhile"  # effect: another worker gets the same message, the monitor runs
    INTERRUPT = "interrupt"  # effect: an operator stops the request
    LOSE = "lose"  # message
    REPEAT = "repeat"  # message: delivered again after `amount` further messages
    LATE = "late"  # message: delivered `amount` seconds later
    REFUSE = "refuse"  # CMS call: not carried out, answered with 503
    CUT = "cut"  # CMS call: not carried out, the connection is lost
    FORGET = "forget"  # CMS call: carried out, the answer is lost
    TWICE = "twice"  # CMS call: carried out twice
    OUTAGE = "outage"  # CMS call: this service refuses calls for `amount` seconds
    SILENCE = "silence"  # schedd call: no answer for `amount` seconds
    UNHEARD = "unheard"  # schedd call that changes something: carried out, the answer is lost
    KILL_DAGMAN = "kill_dagman"  # step
    HIDE_MANIFEST = "hide_manifest"  # step: the next manifest appears `amount` seconds after its group's end
    TRUNCATE = "truncate"  # step: the status file of a DAG is cut in the middle
    STUCK_RULE = "stuck_rule"  # step: Rucio's transfers stop until their rules are boosted
    LOSE_RULE = "lose_rule"  # step: a person deletes a rule of a transfer
    SKEW = "skew"  # step: the clocks of WMS2's hosts are wrong by `amount` seconds
    PAUSE = "pause"  # step: WMS2 does not run for `amount` seconds
    RESTART = "restart"  # step: a new process without anything in memory
    STOP = "stop"  # step: an operator stops the request
    STOP_AND_HOLD = "stop_and_hold"  # step
    HOLD_DAG = "hold_dag"  # step: an operator holds the DAGMans for `amount` seconds
    REMOVE_DAG = "remove_dag"  # step: an operator removes the DAG
    PRIORITY = "priority"  # step
    DRAIN = "drain"  # step: an operator drains a site for `amount` seconds
    ABORT = "abort"  # step
    FAIL = "fail"  # step: an operator fails the request; outputs are withdrawn


EFFECTS = (Kind.CRASH, Kind.CRASH, Kind.MEANWHILE, Kind.INTERRUPT)
MESSAGES = (Kind.LOSE, Kind.REPEAT, Kind.LATE)
CMS_CALLS = (Kind.REFUSE, Kind.CUT, Kind.FORGET, Kind.TWICE, Kind.OUTAGE)
SCHEDD_CALLS = (Kind.SILENCE, Kind.UNHEARD)
STEPS = (
    Kind.KILL_DAGMAN, Kind.HIDE_MANIFEST, Kind.TRUNCATE, Kind.STUCK_RULE, Kind.LOSE_RULE, Kind.SKEW,
    Kind.PAUSE, Kind.RESTART, Kind.STOP, Kind.STOP_AND_HOLD, Kind.HOLD_DAG, Kind.REMOVE_DAG,
    Kind.PRIORITY, Kind.DRAIN,
)  # fmt: skip
ENDINGS = (Kind.ABORT, Kind.FAIL)
# Weight of a family of faults, and the largest number at which they occur.
FAMILIES = ((EFFECTS, 6, 48), (MESSAGES, 2, 10), (CMS_CALLS, 4, 35), (SCHEDD_CALLS, 2, 10), (STEPS, 3, 12))
ENDING_FRACTION = 0.08
LONGEST_SEC = 7200.0


@dataclass(frozen=True, slots=True, order=True)
class Fault:
    """One fault. `amount` is a number of seconds or the argument of an operator.

    `where` names an effect, call or, for steps, the status of the request: only these are counted then.
    """

    kind: Kind
    at: int
    amount: float = 0.0
    where: str = ""

    def __str__(self) -> str:
        place = f"{self.where}:{self.at}" if self.where else str(self.at)
        return f"{self.kind}@{place}" + (f"({self.amount:g})" if self.amount else "")


@dataclass(frozen=True, slots=True)
class Schedule:
    """Values derived from a seed besides the order of events: request, behaviour of its jobs, faults."""

    seed: int
    generates: bool
    files: int
    events: int
    pilot: bool
    transfers: bool
    failing: float
    bad_site: bool
    evicted: float
    faults: tuple[Fault, ...]

    def laws(self) -> Laws:
        bad = {"T2_CH_CERN": 0.9} if self.bad_site else {}
        return Laws(seed=self.seed, failing=self.failing, bad_sites=bad, evicted=self.evicted)

    @property
    def harmless(self) -> bool:
        """Whether there is no fault, neither outside nor in a job."""
        return not (self.faults or self.failing or self.bad_site or self.evicted)

    def __str__(self) -> str:
        what = f"generates {self.events} events" if self.generates else f"reads {self.files} files"
        return f"seed {self.seed}: {what}; {', '.join(map(str, self.faults)) or 'no faults'}"


def build_schedule(seed: int) -> Schedule:
    """Return the schedule of the seed."""
    random = Random(seed)  # noqa: S311 - a simulation
    weights = [weight for _, weight, _ in FAMILIES]
    faults = []
    for _ in range(random.choice((1, 2, 2, 3, 3, 4, 5, 6))):
        kinds, _, last = random.choices(FAMILIES, weights)[0]
        amount = float(random.choice((1, 30, 120, 600, 1800, LONGEST_SEC)))
        kind = random.choice(kinds)
        faults.append(Fault(kind, random.randrange(1, last), -amount if random.random() < 0.5 else amount))
    if random.random() < ENDING_FRACTION:
        faults.append(Fault(random.choice(ENDINGS), random.randrange(2, 16)))
    return Schedule(
        seed=seed,
        generates=random.random() < 0.3,
        files=random.choice((1, 2, 2, 3, 5)),
        events=random.choice((50, 100)),
        pilot=random.random() < 0.15,
        transfers=random.random() < 0.3,
        failing=random.choice((0.0, 0.0, 0.0, 0.1, 0.3)),
        bad_site=random.random() < 0.1,
        evicted=random.choice((0.0, 0.0, 0.2)),
        faults=tuple(sorted(faults)),
    )
