"""`<node>.report.json`: the report of one attempt of a node, written by the job."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from pathlib import Path

from sandbox import names
from sandbox.failure import PAYLOAD, WRAPPER
from sandbox.jsonfile import (
    MAX_FILE_BYTES,
    MAX_LISTED,
    MAX_MEGABYTES,
    MAX_RANGES,
    SCHEMA,
    Fields,
    clean_text,
    write_json,
)
from sandbox.lumis import LumiEvents, Lumis
from sandbox.places import MAX_PREFIXES, prefix_problem

MAX_EXIT_CODE = 999_999
MAX_TRANSFERS = 1000  # a report has the first ones
MAX_TRIES = 1000
MAX_PROBLEM = 500  # characters


@dataclass(frozen=True)
class InputRead:
    lfn: str
    events: int


@dataclass(frozen=True)
class Output:
    """One file on storage, of one dataset; only a merge tells the events of each lumi.

    `place` is the number of the site's storage prefix that holds it; 0 = the primary one.
    """

    dataset: str
    lfn: str
    size_bytes: int
    adler32: str
    events: int
    lumis: Lumis
    lumi_events: LumiEvents = field(default_factory=dict)
    place: int = 0


@dataclass(frozen=True)
class Transfer:
    """One file copied from ("in") or to ("out") storage; `problem` is what went wrong before it worked."""

    direction: str
    lfn: str
    place: int
    prefix: str
    size_bytes: int
    seconds: float
    bytes_per_sec: float
    tries: int
    problem: str = ""


@dataclass(frozen=True)
class Iteration:
    """A measured window of a pilot."""

    events: int
    wall_time_sec: float
    memory_mb: int
    cpu_efficiency: float
    output_size_per_event_kb: float


@dataclass(frozen=True)
class StepProfile:
    step: str
    time_per_event: float
    memory_mb: int
    output_size_per_event_kb: float
    threads: int


@dataclass(frozen=True)
class Recommended:
    events_per_job: int
    memory_mb: int
    time_per_job_sec: float
    output_size_per_event_kb: float


@dataclass(frozen=True)
class PilotReport:
    """Measurements of a pilot, and recommendations for later jobs."""

    iterations: tuple[Iteration, ...]
    per_step: tuple[StepProfile, ...]
    recommended: Recommended
    converged: bool


@dataclass(frozen=True)
class NodeReport:
    node: str
    group: str
    role: str
    site: str
    attempt: int
    exit_code: int
    error: str
    started_at: float
    wall_time_sec: float
    cpu_time_sec: float
    peak_rss_mb: int
    events_read: int
    events_written: int
    inputs: tuple[InputRead, ...] = ()
    outputs: tuple[Output, ...] = ()
    bad_inputs: tuple[str, ...] = ()
    pilot: PilotReport | None = None
    source: str = PAYLOAD  # who set the exit code
    transfers: tuple[Transfer, ...] = ()


def write_report(path: Path, report: NodeReport) -> None:
    document = asdict(report)
    document["schema"] = SCHEMA
    document["error"] = clean_text(report.error)
    document["transfers"] = [
        {**asdict(one), "problem": clean_text(one.problem, MAX_PROBLEM)}
        for one in report.transfers[:MAX_TRANSFERS]
    ]
    write_json(path, document)


def read_report(path: Path) -> NodeReport:
    """Read a report; raise ManifestError if it is missing or truncated, ClaimRefused for another schema."""
    fields = Fields.of_file(path, claim=True)
    return NodeReport(
        node=fields.name("node", names.NODE, "a node name"),
        group=fields.name("group", names.NODE, "a group name", empty=True),
        role=fields.name("role", names.NODE, "a role"),
        site=fields.name("site", names.SITE, "a site name", empty=True),
        attempt=fields.integer("attempt"),
        exit_code=fields.integer("exit_code", maximum=MAX_EXIT_CODE),
        error=fields.text("error"),
        started_at=fields.number("started_at"),
        wall_time_sec=fields.number("wall_time_sec"),
        cpu_time_sec=fields.number("cpu_time_sec"),
        peak_rss_mb=fields.integer("peak_rss_mb", maximum=MAX_MEGABYTES),
        events_read=fields.integer("events_read"),
        events_written=fields.integer("events_written"),
        inputs=tuple(
            InputRead(lfn=one.name("lfn", names.LFN, "an LFN"), events=one.integer("events"))
            for one in fields.children("inputs", most=MAX_LISTED)
        ),
        outputs=tuple(parse_output(one) for one in fields.children("outputs", most=MAX_LISTED)),
        bad_inputs=fields.name_list("bad_inputs", names.LFN, "LFN") if "bad_inputs" in fields.raw else (),
        pilot=parse_pilot(fields.optional("pilot")),
        source=WRAPPER if fields.raw.get("source") == WRAPPER else PAYLOAD,
        transfers=tuple(_parse_transfer(one) for one in fields.children("transfers", most=MAX_TRANSFERS))
        if "transfers" in fields.raw
        else (),
    )


def parse_output(fields: Fields) -> Output:
    return Output(
        dataset=fields.name("dataset", names.DATASET, "/Primary/Processed/TIER"),
        lfn=fields.name("lfn", names.LFN, "an LFN"),
        size_bytes=fields.integer("size_bytes", maximum=MAX_FILE_BYTES),
        adler32=fields.name("adler32", names.ADLER32, "eight hexadecimal digits"),
        events=fields.integer("events"),
        lumis=fields.lumis("lumis", most=MAX_RANGES),
        lumi_events=fields.lumi_events("lumi_events") if "lumi_events" in fields.raw else {},
        place=_place(fields) if "place" in fields.raw else 0,
    )


def _place(fields: Fields) -> int:
    return fields.integer("place", maximum=MAX_PREFIXES - 1)


def _parse_transfer(fields: Fields) -> Transfer:
    direction = fields.text("direction")
    if direction not in ("in", "out"):
        fields.refuse("direction", "in or out")
    prefix = fields.text("prefix")
    if prefix_problem(prefix):
        fields.refuse("prefix", "a storage prefix")
    return Transfer(
        direction=direction,
        lfn=fields.name("lfn", names.LFN, "an LFN"),
        place=_place(fields),
        prefix=prefix,
        size_bytes=fields.integer("size_bytes", maximum=MAX_FILE_BYTES),
        seconds=fields.number("seconds"),
        bytes_per_sec=fields.number("bytes_per_sec"),
        tries=fields.integer("tries", minimum=1, maximum=MAX_TRIES),
        problem=fields.text("problem", limit=MAX_PROBLEM),
    )


def parse_pilot(fields: Fields | None) -> PilotReport | None:
    if fields is None:
        return None
    recommended = fields.child("recommended")
    return PilotReport(
        iterations=tuple(
            Iteration(
                events=one.integer("events", minimum=1),
                wall_time_sec=one.number("wall_time_sec"),
                memory_mb=one.integer("memory_mb", maximum=MAX_MEGABYTES),
                cpu_efficiency=one.number("cpu_efficiency"),
                output_size_per_event_kb=one.number("output_size_per_event_kb"),
            )
            for one in fields.children("iterations", most=MAX_LISTED)
        ),
        per_step=tuple(
            StepProfile(
                step=one.text("step"),
                time_per_event=one.number("time_per_event"),
                memory_mb=one.integer("memory_mb", maximum=MAX_MEGABYTES),
                output_size_per_event_kb=one.number("output_size_per_event_kb"),
                threads=one.integer("threads", minimum=1),
            )
            for one in fields.children("per_step", most=MAX_LISTED)
        ),
        recommended=Recommended(
            events_per_job=recommended.integer("events_per_job", minimum=1),
            memory_mb=recommended.integer("memory_mb", maximum=MAX_MEGABYTES),
            time_per_job_sec=recommended.number("time_per_job_sec"),
            output_size_per_event_kb=recommended.number("output_size_per_event_kb"),
        ),
        converged=fields.flag("converged"),
    )
