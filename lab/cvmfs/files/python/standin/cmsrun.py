"""cmsRun -j REPORT CONFIG: runs the configuration and writes a framework job report."""

from __future__ import annotations

import os
import resource
import sys
import time
import uuid
from collections import Counter
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

from standin import events
from standin.events import Batch, FrameworkError

BAD_ARGUMENTS, CONFIGURATION = 90, 7002
GENERATED = ("EmptySource", "LHESource")


def main(words: list[str]) -> int:
    if len(words) != 3 or words[0] != "-j":
        return BAD_ARGUMENTS
    report, started, fail = words[1], time.time(), os.environ.get("STANDIN_FAIL", "")
    try:
        body = run(words[2], fail) + performance(started)
        code, error = 0, ""
    except FrameworkError as problem:
        body, code, error = "", problem.code, str(problem)
    if fail != "noreport":
        write_report(report, body, code, error)
    return code % 256


def run(config: str, fail: str) -> str:
    """Return the report's description of the input and output files."""
    names: dict[str, Any] = {}
    try:
        exec(compile(Path(config).read_text(), config, "exec"), names)
    except Exception as error:
        raise FrameworkError(CONFIGURATION, f"python encountered the error: {error!r}") from error
    process = names["process"]
    if fail == "crash":
        os.abort()
    if fail.isdigit():
        raise FrameworkError(int(fail), f"An exception of category 'StandIn' occurred: {fail}")
    batch = events.generate(process) if process.source.type_() in GENERATED else events.read(process)
    threads = process.options.numberOfThreads.value()
    events.mix(process, batch)
    events.select(process, batch)
    described = "".join(describe_input(one) for one in batch.files)
    for label, module in process.outputModules_().items():
        name = module.fileName.value().removeprefix("file:")
        events.write(name, batch.events)
        described += describe_output(label, name, batch)
    described += "".join(describe_saved(name) for name in events.save_histograms(process, batch))
    return described + (
        '<PerformanceReport><PerformanceSummary Metric="Timing">'
        f'<Metric Name="NumberOfThreads" Value="{threads}"/></PerformanceSummary></PerformanceReport>\n'
    )


def describe_input(file: events.Read) -> str:
    return (
        f"<InputFile>\n<LFN></LFN>\n<PFN>{escape(file.name)}</PFN>\n<ModuleLabel>source</ModuleLabel>\n"
        f"<InputType>{file.kind}</InputType>\n<InputSourceClass>PoolSource</InputSourceClass>\n"
        f"<EventsRead>{file.events}</EventsRead>\n{describe_runs(file.lumis, None)}</InputFile>\n"
    )


def describe_output(label: str, name: str, batch: Batch) -> str:
    pairs = zip(batch.events[events.RUN].tolist(), batch.events[events.LUMI].tolist(), strict=True)
    return (
        f"<File>\n<LFN></LFN>\n<PFN>{escape(name)}</PFN>\n<ModuleLabel>{label}</ModuleLabel>\n"
        f"<GUID>{uuid.uuid4()}</GUID>\n<OutputModuleClass>PoolOutputModule</OutputModuleClass>\n"
        f"<TotalEvents>{len(batch.events[events.RUN])}</TotalEvents>\n"
        f"{describe_runs(batch.lumis, Counter(pairs))}</File>\n"
    )


def describe_saved(name: str) -> str:
    return (
        f"<AnalysisFile>\n<FileName>./{escape(name)}</FileName>\n"
        '<Source Value="DQMFileSaver"/>\n</AnalysisFile>\n'
    )


def describe_runs(lumis: list[tuple[int, int]], counts: Counter[tuple[int, int]] | None) -> str:
    text = ""
    for run in sorted({run for run, _ in lumis}):
        text += f'<Run ID="{run}">\n'
        for lumi in sorted(number for one, number in lumis if one == run):
            counted = f' NEvents="{counts[run, lumi]}"' if counts is not None else ""
            text += f'   <LumiSection ID="{lumi}"{counted}/>\n'
        text += "</Run>\n"
    return f"<Runs>\n{text}</Runs>\n"


def performance(started: float) -> str:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return (
        '<PerformanceReport><PerformanceSummary Metric="Timing">'
        f'<Metric Name="TotalJobCPU" Value="{used.ru_utime + used.ru_stime:.3f}"/>'
        f'<Metric Name="TotalJobTime" Value="{time.time() - started:.3f}"/></PerformanceSummary>'
        '<PerformanceSummary Metric="ApplicationMemory">'
        f'<Metric Name="PeakValueRss" Value="{used.ru_maxrss / 1024:.1f}"/>'
        "</PerformanceSummary></PerformanceReport>\n"
    )


def write_report(path: str, body: str, code: int, error: str) -> None:
    if code:
        opened = f'<FrameworkError ExitStatus="{code}" Type="Fatal Exception">'
        body += f"{opened}\n{escape(error)}\n</FrameworkError>\n"
    Path(path).write_text(f"<FrameworkJobReport>\n{body}</FrameworkJobReport>\n")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
