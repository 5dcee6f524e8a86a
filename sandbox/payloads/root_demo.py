"""The payload kind `root-demo`: ROOT files, generated (Z -> mu mu) or skimmed from the input, by `rootfiles`.

Configuration, all of it optional, in `payload_config.root_demo`:
  engine             `numpy` (default, fast) or `pythia` (Pythia 8, if the node's Python has pythia8mc)
  detail             of Pythia's events: `full`, `nompi` (default) or `hard`
  filter_efficiency  share of the events that is kept, chosen by the event number
  mass_window_gev    [low, high]: keep events whose two muons have a mass within
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from sandbox.context import Context, Tally, Touched
from sandbox.failure import BAD_CONFIGURATION, FILE_CORRUPT, JobFailure
from sandbox.filefacts import FileFacts, checksum
from sandbox.jsonfile import Fields
from sandbox.lumis import union
from sandbox.manifest import Job
from sandbox.payloads.base import Kind, Window
from sandbox.roottool import RootToolError, run_rootfiles
from sandbox.storage import unreadable, verified_input
from sandbox.values import is_number

ENGINES, DETAILS = ("numpy", "pythia"), ("full", "nompi", "hard")
_CORRUPT = frozenset({"empty", "truncated", "not-root"})


@dataclass(frozen=True)
class RootDemo:
    engine: str = "numpy"
    detail: str = "nompi"
    filter_efficiency: float = 1.0
    mass_window_gev: tuple[float, float] | None = None


def read_config(payload: Mapping[str, Any]) -> RootDemo:
    given = payload.get("root_demo") or {}
    if not isinstance(given, dict):
        raise _refused("", given, "an object")
    known = [field.name for field in fields(RootDemo)]
    for key in given:
        if key not in known:
            raise _refused(str(key), given[key], f"one of {', '.join(known)}")
    config = RootDemo(**{key: value for key, value in given.items() if value is not None})
    if config.engine not in ENGINES:
        raise _refused("engine", config.engine, f"one of {', '.join(ENGINES)}")
    if config.detail not in DETAILS:
        raise _refused("detail", config.detail, f"one of {', '.join(DETAILS)}")
    if not is_number(config.filter_efficiency, 0, 1):
        raise _refused("filter_efficiency", config.filter_efficiency, "a number from 0 to 1")
    window: Any = config.mass_window_gev
    if window is not None:
        pair = isinstance(window, list) and len(window) == 2 and all(is_number(one) for one in window)
        if not pair or window[0] > window[1]:
            raise _refused("mass_window_gev", window, "two numbers, the lower one first")
    return config


def run_window(context: Context, job: Job, tally: Tally, config: RootDemo, part: int) -> Window:
    """Write the job's events into one ROOT file per output dataset."""
    paths = [context.work / f"part{part}.{index}.root" for index in range(len(context.manifest.outputs))]
    task: dict[str, Any] = {**asdict(config), "targets": [str(path) for path in paths]}
    if job.generate is not None:
        result = _run(context, "generate", {**task, "generate": asdict(job.generate), "mask": job.mask}, {})
    else:
        sources, names = _sources(context, job)
        result = _run(context, "skim", {**task, "sources": sources}, names)
        _note_inputs(job, tally, result)
    read = result.integer("events_read")
    tally.events_read += read
    parts = tuple(zip(paths, map(_facts, paths, result.children("targets"))))
    return Window(events_read=read, lumis=result.lumis("lumis"), parts=parts)


def _sources(context: Context, job: Job) -> tuple[list[dict[str, Any]], dict[str, str]]:
    """Return the input windows for the task, and the LFN of each path."""
    sources, names = [], {}
    for file in job.files:
        path = str(verified_input(context, file.lfn, file.size_bytes, file.adler32))
        names[path] = file.lfn
        sources.append(
            {
                "path": path,
                "events": file.events,
                "first": file.first_event,
                "last": file.last_event,
                "mask": job.mask if file.mask is None else file.mask,
            }
        )
    return sources, names


def _run(context: Context, action: str, task: dict[str, Any], names: dict[str, str]) -> Fields:
    try:
        return Fields(run_rootfiles(context, action, task), action)
    except RootToolError as error:
        lfn = names.get(error.source)
        if lfn is None:
            raise JobFailure(BAD_CONFIGURATION, f"rootfiles {action}: {error.message}") from error
        if error.kind in _CORRUPT:
            message = f"FatalRootError: {lfn}: {error.kind}: {error.message}"
            raise JobFailure(FILE_CORRUPT, message, bad_inputs=[lfn]) from error
        raise unreadable(lfn, f"{error.kind}: {error.message}") from error


def _note_inputs(job: Job, tally: Tally, result: Fields) -> None:
    for file, one in zip(job.files, result.children("sources")):
        before = tally.inputs.get(file.lfn, Touched(0, {}))
        lumis = union([before.lumis, one.lumis("lumis")])
        tally.inputs[file.lfn] = Touched(before.events + one.integer("events_read"), lumis)


def _facts(path: Path, target: Fields) -> FileFacts:
    size_bytes, adler32 = checksum(path)
    lumi_events = target.lumi_events("lumi_events")
    lumis = union([{run: [[first, last] for first, last, _ in parts]} for run, parts in lumi_events.items()])
    return FileFacts(size_bytes, adler32, target.integer("events"), lumis, lumi_events)


def _refused(key: str, value: object, expected: str) -> JobFailure:
    field = f"payload: root_demo: {key}" if key else "payload: root_demo"
    return JobFailure(BAD_CONFIGURATION, f"{field:.120}: {value!r:.80} is not {expected}")


KIND = Kind(
    name="root-demo",
    section="root_demo",
    merge_tool="root",
    read_config=read_config,
    run_window=run_window,
)
