"""Parameters of the splitters, under the names of WMS2 or of WMCore."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, NoReturn

from sandbox.values import is_whole
from wms2_project.errors import InvalidInput

DEFAULT_JOB_TIME_LIMIT_SEC = 48 * 3600
_ALSO = {
    "split_on_run": "splitOnRun",
    "apply_lumi_correction": "applyLumiCorrection",
    "allow_creation_failure": "allowCreationFailure",
    "run_whitelist": "runWhitelist",
    "run_blacklist": "runBlacklist",
}


@dataclass(frozen=True, slots=True)
class SplitterParams:
    """Parameters that a request may state. `None` leaves one to the algorithm, or sets no limit."""

    files_per_job: int | None = None
    events_per_job: int | None = None
    events_per_lumi: int | None = None
    lumis_per_job: int | None = None
    total_files: int | None = None
    total_lumis: int | None = None
    total_events: int | None = None
    job_time_limit: int = DEFAULT_JOB_TIME_LIMIT_SEC
    split_on_run: bool = True
    gather_runs: bool = False
    halt_job_on_file_boundaries: bool = False
    apply_lumi_correction: bool = False


@dataclass(frozen=True, slots=True)
class Parameters(SplitterParams):
    """Parameters of a splitter."""

    allow_creation_failure: bool = True
    time_per_event_sec: float = 0.0


def read_parameters(params: Mapping[str, Any], *, time_per_event_sec: float = 0.0) -> Parameters:
    """Return the parameters, with defaults for absent ones. Raise InvalidInput with the wrong one's name."""
    if not (math.isfinite(time_per_event_sec) and time_per_event_sec >= 0):
        refuse("time_per_event_sec", f"is {time_per_event_sec}", "Give seconds, 0 or more")
    known = [knob for knob in fields(Parameters) if knob.name != "time_per_event_sec"]
    values = {knob.name: _read(params, knob.name, knob.default) for knob in known}
    return Parameters(**values, time_per_event_sec=time_per_event_sec)


def _read(params: Mapping[str, Any], name: str, default: Any) -> Any:
    """Read one parameter: a flag, a limit (0 = none) if it is a total, else a count."""
    if isinstance(default, bool):
        return _flag(params, name, default=default)
    return _limit(params, name) if name.startswith("total_") else _positive(params, name) or default


def find(params: Mapping[str, Any], name: str) -> Any:
    """Return the value under either spelling of the name, or None; two different values are refused."""
    value = params.get(name)
    other = params.get(_ALSO[name]) if name in _ALSO else None
    if value is not None and other is not None and value != other:
        refuse(name, f"is {value!r:.40}, but {_ALSO[name]} is {other!r:.40}", "Give one of them")
    return other if value is None else value


def refuse(name: str, problem: str, cure: str) -> NoReturn:
    """Raise InvalidInput for this parameter."""
    raise InvalidInput(f"{name} {problem}", fields={name: f"{problem}. {cure}"}, cure=cure)


def _positive(params: Mapping[str, Any], name: str) -> int | None:
    value = find(params, name)
    if value is not None and not is_whole(value, 1):
        refuse(name, f"is {value!r:.40}", "Give a whole number from 1 up")
    return value


def _limit(params: Mapping[str, Any], name: str) -> int | None:
    value = find(params, name)
    if value is not None and not is_whole(value):
        refuse(name, f"is {value!r:.40}", "Give a whole number, or 0 for no limit")
    return value or None


def _flag(params: Mapping[str, Any], name: str, *, default: bool) -> bool:
    value = find(params, name)
    if value is None:
        return default
    if not isinstance(value, int) or value not in (True, False):
        refuse(name, f"is {value!r:.40}", "Give true or false")
    return bool(value)
