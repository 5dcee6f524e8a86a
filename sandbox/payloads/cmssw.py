"""The payload kind `cmssw`: one cmsRun after the other in one job, as a ReqMgr2 document describes them.

The first step reads the job's events or generates them, a later one reads what an earlier step wrote. Of what
the steps write, the files of modules with an output dataset are kept and staged out; the others end with the
job.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from sandbox.claims import planned_lumis
from sandbox.cmssw.cmsrun import Run, run_cmsrun
from sandbox.cmssw.config import SECTION, Config, Step, read_config
from sandbox.cmssw.harvest import keep_saved, note_read, whole_window
from sandbox.cmssw.pieces import Piece, split_window
from sandbox.cmssw.tweaks import Task, choose_seed, merge_arguments
from sandbox.context import Context, Tally, Touched
from sandbox.exitcodes import Tag, has_tag
from sandbox.failure import BAD_CONFIGURATION, OUTPUT_MISSING, SANDBOX_BROKEN, WRAPPER, JobFailure
from sandbox.filefacts import FileFacts, checksum
from sandbox.fjr import FjrInput, JobReport
from sandbox.lumis import Lumis, compress, union
from sandbox.lumis import tally as tally_lumis
from sandbox.manifest import Job
from sandbox.merge_tools.base import UnreadableFile
from sandbox.payloads.base import Kind, Window
from sandbox.scratch import regular_file
from sandbox.storage import input_url, release_input, unreadable, verified_input

FILE_URL = "file:"
LEFT_BEHIND = "payload: it left processes behind, which were ended"


def run_window(context: Context, job: Job, tally: Tally, config: Config, part: int) -> Window:
    """Run the steps on the job's events and return the kept files."""
    if config.steps[0].harvest:
        return _harvest(context, job, tally, config, part)
    pieces = split_window(job)
    windows = [
        _run_piece(context, piece, tally, config, f"part{part}.{number}")
        for number, piece in enumerate(pieces)
    ]
    tally.note = LEFT_BEHIND if context.tree.left_behind else ""
    return windows[0] if len(windows) == 1 else _join(context, windows, f"part{part}")


def _harvest(context: Context, job: Job, tally: Tally, config: Config, part: int) -> Window:
    lumis = planned_lumis([job], context.manifest)
    piece = whole_window(job, lumis)
    files = _input_names(context, piece)
    _run_step(context, config, 0, piece, files)
    tally.note = LEFT_BEHIND if context.tree.left_behind else ""
    read = note_read(job, tally)
    saved = keep_saved(_step_directory(context, 0), context.work / f"part{part}.0.root", read, lumis or {})
    return Window(events_read=read, lumis=lumis or {}, parts=(saved,))


def _run_step(
    context: Context, config: Config, index: int, piece: Piece, files: Mapping[str, str]
) -> JobReport:
    """Run one step and return its report; a failure names the input files that it blames."""
    run = _build_run(context, config, index, piece, list(files))
    try:
        return run_cmsrun(context, run)
    except JobFailure as failure:
        raise _blamed(failure, files) from failure


def _run_piece(context: Context, piece: Piece, tally: Tally, config: Config, name: str) -> Window:
    reports: list[JobReport] = []
    read = 0
    lumis: Lumis = {}
    for index, step in enumerate(config.steps):
        files = _input_names(context, piece) if step.parent is None else {}
        reports.append(_run_step(context, config, index, piece, files))
        if step.parent is None:
            read, lumis = _note_input(piece, files, reports[0], tally)
            for input_name in files:  # later steps need the room
                release_input(context, Path(input_name[len(FILE_URL) :]))
    parts = []
    for index, output in enumerate(context.manifest.outputs):
        number, module = _writer_of(config, output.dataset)
        written = _step_directory(context, number) / _file_name(module)
        parts.append(_keep(written, reports[number], module, context.work / f"{name}.{index}.root"))
    for number, step in enumerate(config.steps):
        for module in step.modules:
            with suppress(FileNotFoundError):
                (_step_directory(context, number) / _file_name(module)).unlink()
    return Window(events_read=read, lumis=lumis, parts=tuple(parts))


def _build_run(context: Context, config: Config, index: int, piece: Piece, inputs: Sequence[str]) -> Run:
    step, manifest = config.steps[index], context.manifest
    reads_job = step.parent is None
    if not reads_job:
        inputs = [f"{FILE_URL}../{_step_name(step.parent)}/{_file_name(_parent_module(config, step))}"]
    # A job may have been given other cores than its request asked for.
    threads = manifest.cores if step.cores == config.cores else min(step.cores, manifest.cores)
    generates = reads_job and piece.generates
    task = Task(
        inputs=tuple(inputs),
        skip=piece.skip if reads_job else 0,
        events=piece.events if reads_job else -1,
        mask=piece.mask if reads_job else None,
        generate=piece if generates else None,
        lhe=step.lhe,
        threads=threads,
        streams=step.streams if threads == step.cores else 0,
        outputs={} if step.harvest else {module: _file_name(module) for module in step.modules},
        harvest=step.harvest,
    )
    pileup = _pileup_files(context, config, step)
    merged = merge_arguments("".join(step.outputs.values())) if step.merge else None
    documents = {"pileup": pileup, "merge": merged}
    return Run(
        name=f"step {index + 1} ({step.name})",
        directory=_step_directory(context, index),
        release=step.release,
        arch=step.arch,
        task=task,
        files={f"{name}.json": document for name, document in documents.items() if document},
        words=(*(["generate"] if generates else []), *(name for name, one in documents.items() if one)),
        pset=_read_pset(context, step),
        seed=choose_seed(manifest.workflow_id, piece.identity, index),
        pileup_seed=choose_seed(manifest.workflow_id, piece.identity, index, "pileup"),
    )


def _read_pset(context: Context, step: Step) -> bytes | None:
    """Return the step's configuration, which must be the one that was planned with; None for a merge."""
    if step.merge:
        return None
    if not step.pset:
        raise JobFailure(BAD_CONFIGURATION, f"payload: cmssw: steps: {step.name}: pset is missing")
    try:
        data = (context.scratch / step.pset).read_bytes()
    except OSError as error:
        raise JobFailure(SANDBOX_BROKEN, f"{step.pset}: {error.strerror}", source=WRAPPER) from error
    if hashlib.sha256(data).hexdigest() != step.sha256:
        raise JobFailure(SANDBOX_BROKEN, f"{step.pset} is not the file that was planned", source=WRAPPER)
    return data


def _pileup_files(context: Context, config: Config, step: Step) -> dict[str, Any]:
    """Return the pileup of a step as cmssw_handle_pileup.py wants it."""
    found = {}
    for kind, datasets in step.pileup.items():
        missing = [dataset for dataset in datasets if not config.pileup.get(dataset)]
        if missing:
            raise JobFailure(BAD_CONFIGURATION, f"payload: pileup: no files of {missing[0]} are given")
        lfns = [lfn for dataset in datasets for lfn in config.pileup[dataset]]
        found[kind] = {"eventsAvailable": 0, "FileList": [_stream_name(context, lfn) for lfn in lfns]}
    return found


def _stream_name(context: Context, lfn: str) -> str:
    """Return the name by which cmsRun reads a file from storage."""
    url = input_url(context, lfn)
    path = url[len("file://") :] if url.startswith("file://") else url
    return f"{FILE_URL}{path}" if path.startswith("/") else url


def _input_names(context: Context, piece: Piece) -> dict[str, str]:
    """Return the LFN of each input file by the name that cmsRun is given."""
    return {
        f"{FILE_URL}{verified_input(context, file.lfn, file.size_bytes, file.adler32)}": file.lfn
        for file in piece.files
    }


def _note_input(piece: Piece, files: Mapping[str, str], report: JobReport, tally: Tally) -> tuple[int, Lumis]:
    """Add what the first step read to the tally; return its events and lumis.

    Raises JobFailure if it read fewer events than planned.
    """
    if piece.generates:
        first, last = piece.first_lumi, piece.first_lumi + (piece.events - 1) // piece.events_per_lumi
        tally.events_read += piece.events
        return piece.events, {piece.run: [[first, last]]}
    read = _inputs_by_lfn(files, report)
    for lfn, one in read.items():
        before = tally.inputs.get(lfn, Touched(0, {}))
        tally.inputs[lfn] = Touched(
            before.events + one.events_read, union([before.lumis, compress(one.runs)])
        )
        tally.events_read += one.events_read
    for file in piece.files if piece.mask is None else ():
        planned = file.last_event - file.first_event + 1
        found = read[file.lfn].events_read if file.lfn in read else 0
        if found < planned:
            raise unreadable(file.lfn, f"cmsRun read {found} of the {planned} planned events")
    return sum(one.events_read for one in read.values()), union(compress(one.runs) for one in read.values())


def _inputs_by_lfn(files: Mapping[str, str], report: JobReport) -> dict[str, FjrInput]:
    """Return the primary input of a report by LFN; cmsRun reports the given names or the plain paths."""
    known = {**files, **{name[len(FILE_URL) :]: lfn for name, lfn in files.items()}}
    primary = [one for one in report.input_files if one.input_type == "primaryFiles"]
    found: dict[str, FjrInput] = {}
    for one in primary:
        lfn = known.get(one.pfn) or known.get(one.lfn)
        if lfn is not None:
            found[lfn] = one
    return found


def _blamed(failure: JobFailure, files: Mapping[str, str]) -> JobFailure:
    """Return the failure with the input files that its message names, if its code is of that kind."""
    if not files or not (has_tag(failure.code, Tag.OPEN) or has_tag(failure.code, Tag.CORRUPT)):
        return failure
    blamed = [lfn for name, lfn in files.items() if name[len(FILE_URL) :] in failure.message]
    blamed = blamed or (list(files.values()) if len(files) == 1 else [])
    return JobFailure(
        failure.code, failure.message, bad_inputs=failure.bad_inputs or blamed, source=failure.source
    )


def _parent_module(config: Config, step: Step) -> str:
    if step.module:
        return step.module
    modules = config.steps[step.parent or 0].modules
    if len(modules) != 1:
        raise JobFailure(BAD_CONFIGURATION, f"payload: cmssw: steps: {step.name}: module is missing")
    return modules[0]


def _writer_of(config: Config, dataset: str) -> tuple[int, str]:
    """Return the step and the module that write a dataset."""
    for number, step in enumerate(config.steps):
        for module, written in step.outputs.items():
            if written == dataset:
                return number, module
    raise JobFailure(BAD_CONFIGURATION, f"payload: cmssw: steps: none has {dataset} in its outputs")


def _keep(written: Path, report: JobReport, module: str, target: Path) -> tuple[Path, FileFacts]:
    """Move a file that a step wrote out of the way of the next one; return it with what its report says."""
    described = [one for one in report.output_files if one.module_label == module]
    if len(described) != 1:
        raise JobFailure(
            OUTPUT_MISSING, f"payload: cmsRun reports {len(described)} files of {module}, not one"
        )
    try:
        regular_file(written).replace(target)
        size_bytes, adler32 = checksum(target)
    except OSError as error:
        raise JobFailure(OUTPUT_MISSING, f"payload: output of {module}: {error.strerror}") from error
    one = described[0]
    counts = one.lumi_events
    counted = counts is not None and sum(sum(lumis.values()) for lumis in counts.values()) == one.events
    lumi_events = tally_lumis(counts) if counts is not None and counted else {}
    return target, FileFacts(size_bytes, adler32, one.events, compress(one.runs), lumi_events)


def _join(context: Context, windows: Sequence[Window], name: str) -> Window:
    """Merge the files of several pieces, output by output."""
    parts = []
    for index in range(len(context.manifest.outputs)):
        files = [window.parts[index] for window in windows]
        target = context.work / f"{name}.{index}.root"
        try:
            context.merge_tool.merge(context, [regular_file(path) for path, _ in files], target)
            size_bytes, adler32 = checksum(regular_file(target))
        except (UnreadableFile, OSError) as error:
            raise JobFailure(
                OUTPUT_MISSING, f"payload: the files of {name} cannot be joined: {error}"
            ) from error
        events = sum(facts.events for _, facts in files)
        lumis = union(facts.lumis for _, facts in files)
        parts.append((target, FileFacts(size_bytes, adler32, events, lumis, {})))
    read = sum(window.events_read for window in windows)
    return Window(events_read=read, lumis=union(window.lumis for window in windows), parts=tuple(parts))


def _step_name(index: int | None) -> str:
    return f"step{index}"


def _step_directory(context: Context, index: int) -> Path:
    return context.work / _step_name(index)


def _file_name(module: str) -> str:
    return f"{module}.root"


KIND = Kind(
    name="cmssw",
    section=SECTION,
    merge_tool="cmssw",
    read_config=read_config,
    run_window=run_window,
)
