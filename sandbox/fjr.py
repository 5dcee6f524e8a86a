"""FrameworkJobReport.xml, the report of a CMSSW process: untrusted input, parsed with limits.

The parser reads a stream of elements, ignores unknown ones, limits size, depth and number of elements, and
refuses any DTD. From a truncated report, as left by a killed job, it takes the complete elements.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from io import BytesIO
from pathlib import Path
from typing import BinaryIO
from xml.parsers import expat

from sandbox.failure import steps_of
from sandbox.jsonfile import ClaimRefused, open_regular

MAX_BYTES = 8 * 1024 * 1024
MAX_DEPTH = 32
MAX_ELEMENTS = 400_000
MAX_TEXT = 65_536  # of one element; more is cut off
MAX_TAG = 1024 * 1024  # bytes without the end of a tag or any text
CHUNK_BYTES = 65_536
# Error messages of the parser for a truncated document.
_CUT_OFF = frozenset(
    expat.errors.codes[message]
    for message in (
        expat.errors.XML_ERROR_NO_ELEMENTS,
        expat.errors.XML_ERROR_UNCLOSED_TOKEN,
        expat.errors.XML_ERROR_PARTIAL_CHAR,
        expat.errors.XML_ERROR_UNCLOSED_CDATA_SECTION,
    )
)


class FjrError(Exception):
    """The document is not a readable framework job report."""


@dataclass(frozen=True)
class FrameworkError:
    exit_status: int
    type: str
    text: str


@dataclass(frozen=True)
class FjrInput:
    lfn: str
    pfn: str
    events_read: int
    input_type: str = "primaryFiles"
    runs: Mapping[int, tuple[int, ...]] = field(default_factory=dict)


@dataclass(frozen=True)
class FjrOutput:
    lfn: str
    pfn: str
    events: int
    module_label: str = ""
    runs: Mapping[int, tuple[int, ...]] = field(default_factory=dict)
    inputs: tuple[str, ...] = ()
    lumi_events: Mapping[int, Mapping[int, int]] | None = None  # None unless known for every lumi


@dataclass(frozen=True)
class JobReport:
    errors: tuple[FrameworkError, ...] = ()
    reported_exit_code: int | None = None
    input_files: tuple[FjrInput, ...] = ()
    skipped_files: tuple[str, ...] = ()
    output_files: tuple[FjrOutput, ...] = ()
    performance: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    complete: bool = True  # False: the document ended before its last element did

    @property
    def exit_code(self) -> int:
        """The status of the first framework error, else the exit code element, else 0."""
        if self.errors:
            return self.errors[0].exit_status
        return self.reported_exit_code or 0

    @property
    def steps(self) -> dict[str, int]:
        return steps_of(self.exit_code)

    @property
    def events_read(self) -> int:
        """Events of the primary input, without pile-up and parents."""
        return sum(one.events_read for one in self.input_files if one.input_type == "primaryFiles")

    def metric(self, summary: str, name: str) -> float | None:
        """Return a number of the performance report, e.g. ApplicationMemory, PeakValueRss; None if absent."""
        try:
            value = float(self.performance[summary][name])
        except (KeyError, ValueError):
            return None
        return value if math.isfinite(value) else None


def parse_fjr(source: Path | str | bytes) -> JobReport:
    """Parse a file (path) or a document (bytes). Raise FjrError, but not for a truncated document."""
    reader = _Reader()
    parser = expat.ParserCreate()
    parser.buffer_text = True
    parser.StartElementHandler = reader.start
    parser.EndElementHandler = reader.end
    parser.CharacterDataHandler = reader.characters
    parser.StartDoctypeDeclHandler = _refuse_dtd
    try:
        for chunk in _chunks(source):
            parser.Parse(chunk, False)
            reader.check_progress(len(chunk))
        parser.Parse(b"", True)
    except expat.ExpatError as error:
        if error.code not in _CUT_OFF or not reader.began:
            raise FjrError(f"framework job report: {error}") from error
        return reader.report(complete=False)
    except (ValueError, LookupError) as error:
        raise FjrError(f"framework job report: {error}") from error
    return reader.report(complete=True)


def _chunks(source: Path | str | bytes) -> Iterator[bytes]:
    """Yield the document in chunks, so that a limit of the reader ends it early."""
    if isinstance(source, bytes):
        opened: BinaryIO = BytesIO(source)
    else:
        try:
            opened = open_regular(Path(source))
        except OSError as error:
            raise FjrError(f"{Path(source).name}: {error.strerror}") from error
        except ClaimRefused as error:
            raise FjrError(str(error)) from error
    with opened as handle:
        read = 0
        while chunk := handle.read(CHUNK_BYTES):
            read += len(chunk)
            if read > MAX_BYTES:
                raise FjrError(f"framework job report: larger than {MAX_BYTES >> 20} MB")
            yield chunk


def _refuse_dtd(*_: object) -> None:
    raise FjrError("framework job report: a document type declaration is not allowed")


class _Reader:
    """Collects the needed values from the stream of elements."""

    def __init__(self) -> None:
        self._path: list[str] = []
        self._elements = 0
        self._quiet = 0  # bytes since the last part of the document that was complete
        self._text: list[str] = []
        self._text_left = MAX_TEXT
        self._file: dict[str, str] = {}
        self._runs: dict[int, list[int]] = {}
        self._run: int | None = None
        self._counts: dict[int, dict[int, int]] | None = {}
        self._parents: list[str] = []
        self._summary: dict[str, str] | None = None
        self._error: tuple[int, str] = (0, "")
        self._errors: list[FrameworkError] = []
        self._inputs: list[FjrInput] = []
        self._outputs: list[FjrOutput] = []
        self._skipped: list[str] = []
        self._exit_code: int | None = None
        self._performance: dict[str, dict[str, str]] = {}

    @property
    def began(self) -> bool:
        return bool(self._path)

    def report(self, *, complete: bool) -> JobReport:
        """Return what was collected; a truncated error message is kept."""
        if "FrameworkError" in self._path:
            self._errors.append(FrameworkError(*self._error, "".join(self._text).strip()))
        return JobReport(
            errors=tuple(self._errors),
            reported_exit_code=self._exit_code,
            input_files=tuple(self._inputs),
            skipped_files=tuple(self._skipped),
            output_files=tuple(self._outputs),
            performance=self._performance,
            complete=complete,
        )

    def check_progress(self, size: int) -> None:
        """Refuse a tag that does not end: the parser would buffer all of it."""
        self._quiet += size
        if self._quiet > MAX_TAG:
            raise FjrError(f"framework job report: a tag of more than {MAX_TAG >> 20} MB")

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        if not self._path and tag != "FrameworkJobReport":
            raise FjrError(f"framework job report: the document is a {tag[:40]}")
        self._path.append(tag)
        self._quiet = 0
        self._elements += 1
        if len(self._path) > MAX_DEPTH or self._elements > MAX_ELEMENTS:
            raise FjrError(f"framework job report: more than {MAX_DEPTH} levels or {MAX_ELEMENTS} elements")
        self._clear_text()
        if tag in ("InputFile", "File"):
            self._file, self._runs, self._parents, self._counts = {}, {}, [], {}
        elif tag == "Run":
            self._run = _whole(attributes.get("ID"), "Run ID")
            self._runs.setdefault(self._run, [])
        elif tag == "LumiSection" and self._run is not None:
            self._add_lumi(
                self._run, _whole(attributes.get("ID"), "LumiSection ID"), attributes.get("NEvents")
            )
        elif tag == "FrameworkError":
            status = _whole(attributes.get("ExitStatus"), "ExitStatus")
            self._error = (status, attributes.get("Type", ""))
        elif tag == "ExitCode" and "Value" in attributes:
            self._exit_code = _whole(attributes["Value"], "ExitCode")
        elif tag == "SkippedFile":
            self._skipped.append(attributes.get("Lfn", ""))
        elif tag == "PerformanceSummary":
            self._summary = self._performance.setdefault(attributes.get("Metric", ""), {})
        elif tag == "Metric" and self._summary is not None:
            self._summary[attributes.get("Name", "")] = attributes.get("Value", "")

    def _add_lumi(self, run: int, lumi: int, events: str | None) -> None:
        self._runs[run].append(lumi)
        if not events:  # releases before 10_6 do not count them
            self._counts = None
        elif self._counts is not None:
            counts = self._counts.setdefault(run, {})
            counts[lumi] = counts.get(lumi, 0) + _whole(events, "NEvents")

    def characters(self, text: str) -> None:
        self._quiet = 0
        if self._text_left > 0:
            self._text.append(text[: self._text_left])
            self._text_left -= len(text)

    def _clear_text(self) -> None:
        self._text.clear()
        self._text_left = MAX_TEXT

    def end(self, tag: str) -> None:
        self._path.pop()
        self._quiet = 0
        text = "".join(self._text).strip()
        self._clear_text()
        parent = self._path[-1] if self._path else ""
        if tag == "InputFile":
            self._inputs.append(self._input())
        elif tag == "File":
            self._outputs.append(self._output())
        elif parent in ("InputFile", "File"):
            self._file[tag] = text
        elif parent == "Input" and tag == "LFN":
            self._parents.append(text)
        elif tag == "FrameworkError":
            self._errors.append(FrameworkError(self._error[0], self._error[1], text))
        elif tag == "Run":
            self._run = None
        elif tag == "PerformanceSummary":
            self._summary = None

    def _input(self) -> FjrInput:
        return FjrInput(
            lfn=self._file.get("LFN", ""),
            pfn=self._file.get("PFN", ""),
            events_read=_whole(self._file.get("EventsRead") or "0", "EventsRead"),
            input_type=self._file.get("InputType", ""),
            runs=self._lumis(),
        )

    def _output(self) -> FjrOutput:
        return FjrOutput(
            lfn=self._file.get("LFN", ""),
            pfn=self._file.get("PFN", ""),
            events=_whole(self._file.get("TotalEvents") or "0", "TotalEvents"),
            module_label=self._file.get("ModuleLabel", ""),
            runs=self._lumis(),
            inputs=tuple(self._parents),
            lumi_events=self._counts or None,
        )

    def _lumis(self) -> dict[int, tuple[int, ...]]:
        return {run: tuple(lumis) for run, lumis in self._runs.items()}


def _whole(text: str | None, what: str) -> int:
    if text is None or not text.isascii() or not text.isdigit() or len(text) > 20:
        raise FjrError(f"framework job report: {what}: {text!r:.40} is not a whole number")
    return int(text)
