"""The merge tool `cmssw`: cmsRun's own merge, which keeps what CMSSW stores besides the events."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from sandbox.cmssw.cmsrun import Run, run_cmsrun
from sandbox.cmssw.config import Step, read_config
from sandbox.cmssw.tweaks import MERGED, Task, merge_arguments
from sandbox.context import Context
from sandbox.failure import OUTPUT_MISSING, JobFailure
from sandbox.filefacts import Counts
from sandbox.merge_tools import root
from sandbox.merge_tools.base import MergeTool, UnreadableFile
from sandbox.roottool import find_python
from sandbox.scratch import regular_file

NAME = f"{MERGED}.root"
_INDEX = re.compile(r"[a-z0-9]+\.([0-9]+)\b", re.ASCII)  # of the output, in the name of a merged file


def merge(context: Context, inputs: Sequence[Path], target: Path) -> list[Counts] | None:
    """Join the files by the release that wrote them."""
    dataset = _dataset_of(context, target)
    step = _writer_of(context, dataset)
    directory = context.work / "merge"
    names = [f"file:{path}" for path in inputs]
    run = Run(
        name=f"merge of {dataset or target.name}",
        directory=directory,
        release=step.release,
        arch=step.arch,
        task=Task(inputs=tuple(names), outputs={MERGED: NAME}),
        files={"merge.json": merge_arguments(dataset)},
        words=("merge",),
    )
    try:
        report = run_cmsrun(context, run)
    except JobFailure as failure:
        named = [path for path in inputs if str(path) in failure.message]
        if len(named) == 1:
            raise UnreadableFile(named[0], failure.message) from failure
        raise
    try:
        regular_file(directory / NAME).replace(target)
    except OSError as error:
        raise JobFailure(OUTPUT_MISSING, f"merge: {NAME}: {error.strerror}") from error
    found = {one.pfn: one.events_read for one in report.input_files}
    counts = [found.get(f"file:{path}", found.get(str(path))) for path in inputs]
    return [Counts(events or 0, None) for events in counts]


def inspect(context: Context, path: Path) -> Counts | None:
    """Count the file where the node has a Python with uproot. DQMIO has histograms and no events."""
    if _dataset_of(context, path).endswith("/DQMIO") or not find_python():
        return None
    return root.inspect(context, path)


def _dataset_of(context: Context, target: Path) -> str:
    found = _INDEX.match(target.name)
    outputs = context.manifest.outputs
    return outputs[int(found[1])].dataset if found and int(found[1]) < len(outputs) else ""


def _writer_of(context: Context, dataset: str) -> Step:
    """Return the step that writes the dataset; the last one reads what all of them write."""
    steps = read_config(context.manifest.payload).steps
    return next((step for step in steps if dataset in step.outputs.values()), steps[-1])


TOOL = MergeTool("cmssw", merge, inspect)
