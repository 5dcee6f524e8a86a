"""Generates Z -> mu mu events into ROOT files, by NumPy (fast) or Pythia 8 (if pythia8mc is installed).

The seed depends on the run and the first event: the same window has the same physics in every attempt.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import numpy as np

from rootfiles.errors import BAD_TASK, RootFileError
from rootfiles.lumis import LumiCounter, Mask, allowed
from rootfiles.skim import MASS, Selection, Skimmed, target_types, with_pair
from rootfiles.trees import EVENT, LUMI, RUN, Array, Chunk, Types
from rootfiles.writing import new_events

CHUNK_EVENTS = 50_000
MAX_SEED = 900_000_000  # of Pythia
Z_MASS, Z_WIDTH = 91.1876, 2.4952  # GeV
KINEMATICS = ("mum_pt", "mum_eta", "mum_phi", "mum_e", "mup_pt", "mup_eta", "mup_phi", "mup_e")
DETAIL = {
    "full": [],
    "nompi": ["PartonLevel:MPI = off"],
    "hard": [
        "PartonLevel:MPI = off", "PartonLevel:ISR = off", "PartonLevel:FSR = off", "HadronLevel:all = off",
    ],
}  # fmt: skip
TYPES: Types = {
    RUN: np.dtype(np.uint32),
    LUMI: np.dtype(np.uint32),
    EVENT: np.dtype(np.uint64),
    "nParticle": np.dtype(np.int32),
    **{name: np.dtype(np.float32) for name in KINEMATICS},
    MASS: np.dtype(np.float32),
}


@dataclass(frozen=True, slots=True)
class Generation:
    """Events first_event … last_event; event `numbering_from` opens `first_lumi`."""

    run: int
    first_event: int
    last_event: int
    first_lumi: int
    events_per_lumi: int
    numbering_from: int
    engine: str = "numpy"
    detail: str = "nompi"
    mask: Mask | None = None


def generate(plan: Generation, targets: Sequence[str], selection: Selection) -> Skimmed:
    """Write the generated events that mask and selection keep; targets are as those of a skim."""
    if not targets or plan.last_event < plan.first_event:
        raise RootFileError(BAD_TASK, "targets, last_event: at least one file and one event are needed")
    made, identity = LumiCounter(), f"{plan.engine} {plan.run} {plan.first_event} {plan.last_event}"
    with ExitStack() as stack:
        writers = [
            stack.enter_context(new_events(target, target_types(TYPES, number), f"{number} {identity}"))
            for number, target in enumerate(targets)
        ]
        for chunk in _chunks(plan):
            taken = allowed(plan.mask, chunk[RUN], chunk[LUMI])
            made.add(chunk[RUN][taken], chunk[LUMI][taken])
            taken &= selection.keep(chunk)
            kept = with_pair({name: array[taken] for name, array in chunk.items()})
            for writer in writers:
                writer.write(kept)
    return Skimmed([made], [writer.counter for writer in writers])


def seed_of(run: int, first_event: int) -> int:
    """Return a seed from 1 to 900,000,000."""
    digest = hashlib.blake2b(b"%d %d" % (run, first_event), digest_size=8).digest()
    return 1 + int.from_bytes(digest, "big") % MAX_SEED


def _chunks(plan: Generation) -> Iterator[Chunk]:
    seed = seed_of(plan.run, plan.first_event)
    draw = _numpy_engine(seed) if plan.engine == "numpy" else _pythia_engine(seed, plan.detail)
    for first in range(plan.first_event, plan.last_event + 1, CHUNK_EVENTS):
        size = min(CHUNK_EVENTS, plan.last_event + 1 - first)
        yield _branches(draw(size), first, plan)


def _branches(rows: Array, first: int, plan: Generation) -> Chunk:
    number = np.arange(first, first + len(rows), dtype=np.uint64)
    lumi = plan.first_lumi + (number.astype(np.int64) - plan.numbering_from) // plan.events_per_lumi
    cosh, cos = np.cosh(rows[:, 2] - rows[:, 6]), np.cos(rows[:, 3] - rows[:, 7])
    columns: dict[str, Any] = {
        RUN: np.full(len(rows), plan.run),
        LUMI: lumi,
        EVENT: number,
        "nParticle": rows[:, 0],
        **{name: rows[:, index + 1] for index, name in enumerate(KINEMATICS)},
        MASS: np.sqrt(2 * rows[:, 1] * rows[:, 5] * (cosh - cos)),
    }
    return {name: column.astype(TYPES[name]) for name, column in columns.items()}


def _numpy_engine(seed: int) -> Callable[[int], Array]:
    """Generate a Breit-Wigner Z with falling pt and flat rapidity, decayed isotropically, for fast tests."""
    rng = np.random.default_rng(seed)

    def draw(events: int) -> Array:
        mass = np.empty(0)
        while len(mass) < events:
            drawn = Z_MASS + Z_WIDTH / 2 * rng.standard_cauchy(2 * events + 10)
            mass = np.concatenate([mass, drawn[(drawn > 60) & (drawn < 200)]])
        mass = mass[:events]
        pt, rapidity = rng.exponential(12.0, events), rng.uniform(-2.5, 2.5, events)
        angle = rng.uniform(-np.pi, np.pi, events)
        cos, phi = rng.uniform(-1, 1, events), rng.uniform(-np.pi, np.pi, events)
        sin = np.sqrt(1 - cos**2)
        direction = np.stack([sin * np.cos(phi), sin * np.sin(phi), cos]) * mass / 2
        transverse = np.hypot(mass, pt)
        z = np.stack([pt * np.cos(angle), pt * np.sin(angle), transverse * np.sinh(rapidity)])
        energy = transverse * np.cosh(rapidity)
        columns = [rng.poisson(80, events).astype(float)]
        for sign in (1, -1):  # boost the decay products from the rest frame of the Z
            along = (z * direction * sign).sum(axis=0)
            p = direction * sign + z * (along / (mass * (energy + mass)) + 0.5)
            e = (energy * mass / 2 + along) / mass
            p_t = np.hypot(p[0], p[1])
            columns += [p_t, np.arcsinh(p[2] / p_t), np.arctan2(p[1], p[0]), e]
        return np.stack(columns, axis=1)

    return draw


def _pythia_engine(seed: int, detail: str) -> Callable[[int], Array]:
    try:
        import pythia8mc
    except ImportError as error:
        raise RootFileError(BAD_TASK, "engine: pythia: the package pythia8mc is not installed") from error
    pythia = pythia8mc.Pythia("", False)
    settings = [
        "Print:quiet = on", "Beams:eCM = 13600.", "WeakSingleBoson:ffbar2gmZ = on", "23:onMode = off",
        "23:onIfAny = 13", "PhaseSpace:mHatMin = 60.", "Random:setSeed = on", f"Random:seed = {seed}",
    ]  # fmt: skip
    for setting in [*settings, *DETAIL[detail]]:
        if not pythia.readString(setting):
            raise RootFileError(BAD_TASK, f"detail: Pythia refuses the setting {setting}")
    if not pythia.init():
        raise RootFileError(BAD_TASK, "engine: Pythia cannot be initialised")

    def draw(events: int) -> Array:
        rows: list[tuple[float, ...]] = []
        for _ in range(100 + 2 * events):
            if len(rows) == events:
                break
            if pythia.next() and (row := _pythia_row(pythia.event)):
                rows.append(row)
        if len(rows) < events:
            raise RootFileError(BAD_TASK, "engine: Pythia makes no events with two muons")
        return np.array(rows)

    return draw


def _pythia_row(event: Any) -> tuple[float, ...] | None:
    """Return the number of final particles and the hardest muon of each charge; None without both."""
    muons: dict[int, tuple[float, ...]] = {}
    particles = 0
    for particle in event:
        if particle.isFinal():
            particles += 1
            code = particle.id()
            if code in (13, -13) and particle.pT() > muons.get(code, (0.0,))[0]:
                muons[code] = (particle.pT(), particle.eta(), particle.phi(), particle.e())
    return (particles, *muons[13], *muons[-13]) if len(muons) == 2 else None
