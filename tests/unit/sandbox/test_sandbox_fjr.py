"""Framework job reports: real ones are read, hostile ones are refused, ours survive the round trip."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sandbox import fjr
from sandbox.fjr import FjrError, FjrInput, FjrOutput, FrameworkError, JobReport, parse_fjr
from sandbox.fjrwrite import render_fjr, write_fjr
from tests.job_world import NODE

if TYPE_CHECKING:
    from tests.job_world import World

SAMPLES = Path(os.environ.get("WMS2_SAMPLES", Path(__file__).parents[4] / "shared" / "samples")) / "fjr"
needs_samples = pytest.mark.skipif(
    not SAMPLES.is_dir(), reason="WMS2_SAMPLES names no folder of CMSSW reports"
)

# Text that XML keeps unchanged: no control characters, and no blanks at the ends, which the parser strips.
TEXT = st.text(
    st.characters(codec="utf-8", exclude_categories=["Cc", "Cs"], exclude_characters="\ufffe\uffff")
)
WORDS = TEXT.map(str.strip)
NUMBERS = st.integers(0, 10**12)
RUNS = st.dictionaries(NUMBERS, st.lists(NUMBERS, max_size=3).map(tuple), max_size=3)
ERRORS = st.builds(FrameworkError, exit_status=NUMBERS, type=WORDS, text=WORDS)
REPORTS = st.builds(
    JobReport,
    errors=st.lists(ERRORS, max_size=2).map(tuple),
    reported_exit_code=st.none() | NUMBERS,
    input_files=st.lists(
        st.builds(FjrInput, lfn=WORDS, pfn=WORDS, events_read=NUMBERS, input_type=WORDS, runs=RUNS),
        max_size=3,
    ).map(tuple),
    skipped_files=st.lists(WORDS, max_size=2).map(tuple),
    output_files=st.lists(
        st.builds(
            FjrOutput,
            lfn=WORDS,
            pfn=WORDS,
            events=NUMBERS,
            module_label=WORDS,
            runs=RUNS,
            inputs=st.lists(WORDS, max_size=2).map(tuple),
        ),
        max_size=3,
    ).map(tuple),
    performance=st.dictionaries(WORDS, st.dictionaries(WORDS, WORDS, max_size=3), max_size=3),
)


@settings(max_examples=60)
@given(report=REPORTS)
def test_rendered_text_is_parsed_back(report: JobReport) -> None:
    assert parse_fjr(render_fjr(report).encode()) == report


@settings(max_examples=100)
@given(
    data=st.binary(max_size=300) | st.binary(max_size=100).map(lambda tail: b"<FrameworkJobReport>" + tail)
)
def test_any_bytes_are_an_incomplete_report_or_an_fjr_error(data: bytes) -> None:
    try:
        report = parse_fjr(data)
    except FjrError:
        return
    assert not report.complete


@settings(max_examples=60)
@given(report=REPORTS, share=st.floats(0, 1))
def test_a_report_cut_anywhere_holds_nothing_that_the_whole_does_not(report: JobReport, share: float) -> None:
    whole = render_fjr(report).encode()
    cut = whole[: int(share * (len(whole) - len("</FrameworkJobReport>") - 1))]
    try:
        found = parse_fjr(cut)
    except FjrError:
        assert len(cut) < len("<FrameworkJobReport>")
        return
    assert not found.complete
    for name in ("input_files", "output_files", "skipped_files"):
        taken = getattr(found, name)
        assert taken == getattr(report, name)[: len(taken)]
    statuses = [(one.exit_status, one.type) for one in report.errors]
    assert [(one.exit_status, one.type) for one in found.errors] == statuses[: len(found.errors)]


def test_a_failed_report_has_step_error_and_skipped_file(tmp_path: Path) -> None:
    path = tmp_path / "job.fjr.xml"
    write_fjr(
        path,
        JobReport(
            errors=(FrameworkError(60311, "StageOutFailure", "cannot write\x00 ]]> <b>"),),
            reported_exit_code=1,
            skipped_files=("/store/data/a.root",),
            performance={"ApplicationMemory": {"PeakValueRss": "12.5"}},
        ),
    )
    report = parse_fjr(path)

    assert report.exit_code == 60311
    assert report.steps == {"cmsRun1": 0, "stageOut1": 60311}
    assert report.errors[0].text == "cannot write? ]]> <b>"
    assert report.skipped_files == ("/store/data/a.root",)
    assert report.metric("ApplicationMemory", "PeakValueRss") == 12.5
    assert report.metric("Timing", "TotalJobTime") is None


BOMB = b"""<?xml version="1.0"?><!DOCTYPE x [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;">]>
<FrameworkJobReport><File><LFN>&b;</LFN></File></FrameworkJobReport>"""


@pytest.mark.parametrize(
    ("document", "message"),
    [
        (BOMB, "document type"),
        (b'<!DOCTYPE x SYSTEM "file:///etc/passwd"><FrameworkJobReport/>', "document type"),
        (BOMB.decode().replace('"1.0"', '"1.0" encoding="utf-16"').encode("utf-16"), "document type"),
        (b"<Other/>", "Other"),
        (b"", "no element found"),
        (b"<Framework", "unclosed token"),
        (b"<!DOCTYPE x [<!ENTITY a 'a'", "document type"),
        (b"<FrameworkJobReport><File></Other>", "mismatched tag"),
        (b'<FrameworkJobReport><FrameworkError ExitStatus="x"/></FrameworkJobReport>', "ExitStatus"),
        (
            b"<FrameworkJobReport><InputFile><EventsRead>-1</EventsRead></InputFile></FrameworkJobReport>",
            "EventsRead",
        ),
    ],
)
def test_a_hostile_or_broken_report_is_refused(document: bytes, message: str) -> None:
    with pytest.raises(FjrError, match=message):
        parse_fjr(document)


def test_a_report_that_is_too_large_or_missing_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(FjrError, match="No such file"):
        parse_fjr(tmp_path / "missing.xml")
    monkeypatch.setattr(fjr, "MAX_BYTES", 10)
    with pytest.raises(FjrError, match="larger"):
        parse_fjr(b"<FrameworkJobReport/>")


@needs_samples
@pytest.mark.parametrize("path", sorted(SAMPLES.glob("*.xml")), ids=lambda path: path.stem)
def test_reports_of_real_framework_jobs_parse(path: Path) -> None:
    report = parse_fjr(path)

    assert report.input_files
    assert all(one.lfn.startswith("/store/") or one.pfn for one in report.input_files)
    assert any(one.runs for one in report.input_files)


@needs_samples
def test_the_facts_of_real_reports_are_found() -> None:
    failed = parse_fjr(SAMPLES / "CMSSWFailReport.xml")
    skipped = parse_fjr(SAMPLES / "CMSSWSkippedNonExistentFile.xml")
    merged = parse_fjr(SAMPLES / "CMSSWMergeReport.xml")
    measured = parse_fjr(SAMPLES / "PerformanceReport.xml")
    pileup = parse_fjr(SAMPLES / "CMSSWPileup.xml")

    assert (failed.exit_code, failed.errors[0].type) == (8001, "CMSException")
    assert "CastorDbRecord" in failed.errors[0].text
    assert [lfn.rsplit("/", 1)[1][:18] for lfn in skipped.skipped_files] == ["1ED243E7-A611-E211"]
    assert merged.events_read == 200
    assert list(merged.output_files[0].runs.values()) == [(3, 21)]
    assert len(merged.output_files[0].inputs) == 2
    assert measured.metric("Timing", "TotalJobTime") == 23.5703
    assert measured.metric("ApplicationMemory", "PeakValueRss") is not None
    assert pileup.events_read == 813


FACTS = {
    "CMSSWFailReport": (8001, 1, 1, 0, 2),
    "CMSSWJobReportXrdSiteStatistics": (0, 3, 1, 0, 1),
    "CMSSWMergeReport": (0, 200, 1, 0, 1),
    "CMSSWMultipleInput": (0, 4, 1, 0, 0),
    "CMSSWPileup": (0, 813, None, 0, 1),
    "CMSSWProcessingReport": (0, 2, 1, 0, 2),
    "CMSSWSkippedNonExistentFile": (0, 5, 1, 1, 6),
    "CMSSWTwoFileLocal": (0, 10, 1, 0, 1),
    "CMSSWWithEventCounts": (0, 2, 1, 0, 2),
    "PerformanceReport": (0, 10, 1, 0, 1),
}


@needs_samples
@pytest.mark.parametrize("sample", FACTS)
def test_errors_steps_inputs_and_outputs_of_every_real_report(sample: str) -> None:
    code, events, runs, skipped, outputs = FACTS[sample]
    report = parse_fjr(SAMPLES / f"{sample}.xml")

    assert (report.exit_code, report.steps, len(report.errors)) == (code, {"cmsRun1": code}, int(code > 0))
    assert report.events_read == events
    assert (len(report.skipped_files), len(report.output_files)) == (skipped, outputs)
    seen = {run for one in report.input_files for run, lumis in one.runs.items() if lumis}
    assert runs is None or len(seen) == runs


FAILED_PREFIX = b"""<FrameworkJobReport>
<InputFile><LFN>/store/data/a.root</LFN><InputType>primaryFiles</InputType><EventsRead>7</EventsRead></InputFile>
<InputFile><LFN>/store/data/b.root</LFN>
</InputFile>
<File><LFN>/store/unfinished.root</LFN>
"""


def test_an_incomplete_report_gives_its_finished_elements() -> None:
    report = parse_fjr(FAILED_PREFIX)

    assert not report.complete
    assert [one.lfn for one in report.input_files] == ["/store/data/a.root", "/store/data/b.root"]
    assert (report.events_read, report.output_files, report.exit_code) == (7, (), 0)


@pytest.mark.parametrize(
    "end", [b"", b"<![CDATA[", b"<![CDATA[\nProduct not", b"Product not", b"Product not</Frame"]
)
def test_an_error_counts_as_soon_as_its_start_tag_is_written(end: bytes) -> None:
    start = b'<FrameworkJobReport><FrameworkError ExitStatus="8001" Type="CMSException" >'
    report = parse_fjr(start + end)

    assert (report.exit_code, report.errors[0].type, report.complete) == (8001, "CMSException", False)
    assert "Product not".startswith(report.errors[0].text)


@needs_samples
def test_a_report_truncated_after_its_error_tag_yields_the_error() -> None:
    whole = (SAMPLES / "CMSSWFailReport.xml").read_bytes()
    start = whole.index(b"<FrameworkError")
    cut = parse_fjr(whole[: whole.index(b">", start) + 1])

    assert (cut.exit_code, cut.complete, parse_fjr(whole).complete) == (8001, False, True)
    assert cut.input_files == parse_fjr(whole).input_files


def plan_real_input(world: World) -> None:
    """Plan the job whose real report is in the samples."""
    (read,) = parse_fjr(SAMPLES / "CMSSWFailReport.xml").input_files
    world.add_job(NODE, [{**world.add_file("a", 10), "lfn": read.lfn}])
    world.plan()


@needs_samples
@pytest.mark.parametrize(
    ("return_value", "code"),
    [(8001 % 256, 8001), (-9, 8001), (3, 99303), (0, 99303), (-1002, 99400)],
    ids=["its own status", "killed while writing", "status of another attempt", "success", "removed"],
)
def test_post_judges_a_killed_job_by_the_report_it_had_begun(
    world: World, return_value: int, code: int
) -> None:
    plan_real_input(world)
    whole = (SAMPLES / "CMSSWFailReport.xml").read_bytes()
    cut = whole[: whole.index(b"CastorDbRecord") + 40]
    (world.reports / f"{NODE}.fjr.xml").write_bytes(cut)

    assert world.post(NODE, return_value) != 0
    assert world.record(NODE)["job"]["exit_code"] == code


@needs_samples
def test_post_judges_a_job_by_the_real_report_it_left(world: World) -> None:
    plan_real_input(world)
    (world.reports / f"{NODE}.fjr.xml").write_bytes((SAMPLES / "CMSSWFailReport.xml").read_bytes())

    assert world.post(NODE, 8001 % 256) == 42
    result = world.record(NODE)["cmssw"]
    assert (result["exit_code"], result["steps"]) == (8001, {"cmsRun1": {"status": 1, "exit_code": 8001}})
    assert "CastorDbRecord" in result["error_message"]
    assert result["input_files"][0].startswith("/store/data/BeamCommissioning09/")
    assert (len(result["output_files"]), result["performance"]["events_read"]) == (2, 1)
