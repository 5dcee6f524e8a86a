"""The knobs of the toy payload, `payload_config.toy`: cost of its jobs, and faults to inject.

Cost: `cpu_sec_per_event`, `wait_sec_per_event` (the least an event takes, on average), `memory_mb` (really
taken: a job that asked for less fails with 50660, and a retry with more memory heals it),
`filter_efficiency`, `output_kb_per_event`.

A fault strikes where all of these agree; what is not given agrees with everything:
  fail_nodes        names of nodes; without it all processing nodes, never merge or cleanup
  fail_sites        names of sites
  fail_files        LFNs: the job reads one of them; that file is the one to blame
  fail_attempts     only the first so many attempts
  fail_probability  share of nodes and attempts, chosen by `fail_seed`: the same seed, the same choice

What then happens is `fail_how`:
  exit              the job fails with `fail_exit_code` (8022 with `fail_files`: a corrupt input file)
  hang              it does nothing until a wall-time limit ends it
  slow_start        it waits `fail_delay_sec`, then works
  no_report         it ends with `fail_exit_code` and leaves no report
  truncated_report  it ends with `fail_exit_code` and half a report
  disk_full         it finds no room to write
  held              its output cannot be transferred, so HTCondor holds it

Only the toy honours them, and a knob that is unknown or out of range fails every job (7002).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from sandbox.failure import BAD_CONFIGURATION, JobFailure
from sandbox.report import MAX_EXIT_CODE
from sandbox.values import is_number, is_whole

EXIT = "exit"
WAYS = (EXIT, "hang", "slow_start", "no_report", "truncated_report", "disk_full", "held")


@dataclass(frozen=True)
class Knobs:
    """Values of the knobs. The defaults use few resources and inject no fault."""

    cpu_sec_per_event: float = 0.0
    wait_sec_per_event: float = 0.0
    memory_mb: float = 0.0
    filter_efficiency: float = 1.0
    output_kb_per_event: float = 0.0625
    fail_how: str = EXIT
    fail_exit_code: int = 0
    fail_delay_sec: float = 0.0
    fail_nodes: tuple[str, ...] = ()
    fail_sites: tuple[str, ...] = ()
    fail_files: tuple[str, ...] = ()
    fail_attempts: int | None = None
    fail_probability: float = 1.0
    fail_seed: int = 0

    @property
    def injects(self) -> bool:
        return self.fail_how != EXIT or self.fail_exit_code != 0


_LARGEST = {
    "cpu_sec_per_event": 3600,
    "wait_sec_per_event": 3600,
    "memory_mb": 1_000_000,
    "filter_efficiency": 1,
    "output_kb_per_event": 16_384,
    "fail_exit_code": MAX_EXIT_CODE,
    "fail_delay_sec": 86_400,
    "fail_attempts": 1000,
    "fail_probability": 1,
    "fail_seed": 2**31,
}
_WHOLE = ("fail_exit_code", "fail_attempts", "fail_seed")


def read_knobs(payload: Mapping[str, Any]) -> Knobs:
    """Return the knobs of a payload_config; absent knobs have their defaults."""
    given = payload.get("toy") or {}
    if not isinstance(given, dict):
        raise _refused("", given, "an object")
    known = {field.name for field in fields(Knobs)}
    for key in given:
        if key not in known:
            raise _refused(str(key), given[key], "a knob of the toy payload")
    return Knobs(**{key: _value(key, value) for key, value in given.items() if value is not None})


def _value(key: str, value: object) -> Any:
    if key == "fail_how":
        if value not in WAYS:
            raise _refused(key, value, f"one of {', '.join(WAYS)}")
        return value
    if key not in _LARGEST:
        if not isinstance(value, list) or not all(isinstance(word, str) for word in value):
            raise _refused(key, value, "a list of names")
        return tuple(value)
    fits = is_whole if key in _WHOLE else is_number
    if not fits(value, 0, _LARGEST[key]):
        whole = "whole " if key in _WHOLE else ""
        raise _refused(key, value, f"a {whole}number from 0 to {_LARGEST[key]}")
    return value


def _refused(key: str, value: object, wanted: str) -> JobFailure:
    where = f"payload: toy: {key}" if key else "payload: toy"
    return JobFailure(BAD_CONFIGURATION, f"{where:.120}: {value!r:.80} is not {wanted}")
