"""`python -m rootfiles {generate|skim|merge|inspect} TASK.json RESULT.json`.

The result holds `error` (kind, message, source) if the task failed; then the exit status is 1.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rootfiles.errors import BAD_TASK, OUT_OF_MEMORY, RootFileError
from rootfiles.generate import Generation, generate
from rootfiles.inspect import inspect
from rootfiles.lumis import LumiCounter
from rootfiles.merge import merge
from rootfiles.skim import Selection, Skimmed, SkimSource, skim

Document = dict[str, Any]


def main(arguments: Sequence[str]) -> int:
    if len(arguments) != 3 or arguments[0] not in ACTIONS:
        sys.stderr.write(f"usage: rootfiles {'|'.join(ACTIONS)} TASK.json RESULT.json\n")
        return 2
    action, task, result = arguments
    try:
        document = ACTIONS[action](_read_task(task))
    except RootFileError as error:
        document = _error(error.kind, error.message, error.source)
    except MemoryError as error:
        document = _error(OUT_OF_MEMORY, str(error) or "not enough memory", "")
    _write(Path(result), document)
    return 1 if "error" in document else 0


def _run_generate(task: Mapping[str, Any]) -> Document:
    options = {name: task[name] for name in ("engine", "detail") if name in task}
    plan = Generation(**task["generate"], **options, mask=task.get("mask"))
    return _skimmed(generate(plan, task["targets"], _selection(task)))


def _run_skim(task: Mapping[str, Any]) -> Document:
    sources = [SkimSource(**one) for one in task["sources"]]
    return _skimmed(skim(sources, task["targets"], _selection(task)))


def _run_merge(task: Mapping[str, Any]) -> Document:
    counted = merge(task["sources"], task["target"])
    return {"events": sum(one.events for one in counted), "sources": [asdict(one) for one in counted]}


def _run_inspect(task: Mapping[str, Any]) -> Document:
    return {"sources": [asdict(inspect(source)) for source in task["sources"]]}


ACTIONS: dict[str, Callable[[Mapping[str, Any]], Document]] = {
    "generate": _run_generate,
    "skim": _run_skim,
    "merge": _run_merge,
    "inspect": _run_inspect,
}


def _selection(task: Mapping[str, Any]) -> Selection:
    return Selection(task.get("filter_efficiency", 1.0), task.get("mass_window_gev"))


def _skimmed(done: Skimmed) -> Document:
    read = LumiCounter()
    for one in done.sources:
        read.add_all(one)
    return {
        "events_read": read.events,
        "lumis": read.lumis(),
        "sources": [{"events_read": one.events, "lumis": one.lumis()} for one in done.sources],
        "targets": [{"events": one.events, "lumi_events": one.lumi_events()} for one in done.targets],
    }


def _read_task(path: str) -> Mapping[str, Any]:
    try:
        task = json.loads(Path(path).read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise RootFileError(BAD_TASK, f"{path}: {error}") from error
    if not isinstance(task, dict):
        raise RootFileError(BAD_TASK, f"{path}: not a JSON object")
    return _Task(task)


class _Task(dict[str, Any]):
    """A task whose missing fields are errors of the task."""

    def __missing__(self, key: str) -> Any:
        raise RootFileError(BAD_TASK, f"{key}: is missing")


def _error(kind: str, message: str, source: str) -> Document:
    return {"error": {"kind": kind, "message": message, "source": source}}


def _write(path: Path, document: Document) -> None:
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    temporary.write_text(json.dumps(document, sort_keys=True), "utf-8")
    temporary.replace(path)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
