"""Writer of a FrameworkJobReport.xml as written by CMSSW, without the branch lists."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from html import escape
from pathlib import Path

from sandbox.atomic import replacing
from sandbox.fjr import FjrInput, FjrOutput, JobReport

# Characters that XML 1.0 cannot represent, even escaped; a carriage return would be read as a newline.
_ILLEGAL = re.compile(r"[^\t\n\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def write_fjr(path: Path, report: JobReport) -> None:
    with replacing(path) as handle:
        handle.write(render_fjr(report).encode("utf-8"))


def render_fjr(report: JobReport) -> str:
    lines = ["<FrameworkJobReport>"]
    lines += [f'<SkippedFile Pfn="" Lfn="{_safe(lfn)}" />' for lfn in report.skipped_files]
    for one in report.input_files:
        lines += _input_lines(one)
    for output in report.output_files:
        lines += _output_lines(output)
    for error in report.errors:
        lines.append(f'<FrameworkError ExitStatus="{error.exit_status}" Type="{_safe(error.type)}" >')
        lines += [_safe(error.text), "</FrameworkError>"]
    for summary, metrics in report.performance.items():
        lines += ["<PerformanceReport>", f'  <PerformanceSummary Metric="{_safe(summary)}">']
        for name, value in metrics.items():
            lines.append(f'    <Metric Name="{_safe(name)}" Value="{_safe(value)}"/>')
        lines += ["  </PerformanceSummary>", "</PerformanceReport>"]
    if report.reported_exit_code is not None:
        lines.append(f'<ExitCode Value="{report.reported_exit_code}"/>')
    lines.append("</FrameworkJobReport>")
    return "\n".join(lines) + "\n"


def _input_lines(file: FjrInput) -> Iterator[str]:
    yield "<InputFile>"
    yield '<State  Value="closed"/>'
    yield _element("LFN", file.lfn)
    yield _element("PFN", file.pfn)
    yield _element("ModuleLabel", "source")
    yield _element("InputType", file.input_type)
    yield _element("EventsRead", str(file.events_read))
    yield from _run_lines(file.runs)
    yield "</InputFile>"


def _output_lines(file: FjrOutput) -> Iterator[str]:
    yield "<File>"
    yield '<State  Value="closed"/>'
    yield _element("LFN", file.lfn)
    yield _element("PFN", file.pfn)
    yield _element("ModuleLabel", file.module_label)
    yield _element("TotalEvents", str(file.events))
    yield from _run_lines(file.runs)
    yield "<Inputs>"
    for lfn in file.inputs:
        yield f"<Input>{_element('LFN', lfn)}</Input>"
    yield "</Inputs>"
    yield "</File>"


def _run_lines(runs: Mapping[int, tuple[int, ...]]) -> Iterator[str]:
    yield "<Runs>"
    for run, lumis in runs.items():
        yield f'<Run ID="{run}">'
        for lumi in lumis:
            yield f'   <LumiSection ID="{lumi}"/>'
        yield "</Run>"
    yield "</Runs>"


def _element(tag: str, text: str) -> str:
    return f"<{tag}>{_safe(text)}</{tag}>"


def _safe(text: str) -> str:
    return escape(_ILLEGAL.sub("?", text))
