"""The manifests of a group: `jobs.json` with the work of its nodes, `merge_output.json` with the result."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from sandbox import names
from sandbox.jsonfile import (
    MAX_LISTED,
    MAX_MEGABYTES,
    SCHEMA,
    Fields,
    ManifestError,
    ManifestMissing,
    ManifestUnreadable,
    read_json,
    write_json,
)
from sandbox.lumis import LumiEvents, Lumis
from sandbox.places import prefix_problem
from sandbox.report import Output, PilotReport, parse_output, parse_pilot

__all__ = [
    "GroupManifest",
    "JobsManifest",
    "ManifestError",
    "ManifestMissing",
    "ManifestUnreadable",
    "read_group_manifest",
    "read_jobs",
    "write_group_manifest",
]


@dataclass(frozen=True)
class InputFile:
    """A window of a file: events first_event … last_event, counted from 0 inside the file, both included.

    A mask of its own takes the place of the job's for this file.
    """

    lfn: str
    size_bytes: int
    adler32: str
    events: int
    first_event: int
    last_event: int
    mask: Lumis | None = None


@dataclass(frozen=True)
class Generate:
    """Events to generate; event `numbering_from` is the first of `first_lumi`, whatever the window."""

    first_event: int
    last_event: int
    first_lumi: int
    events_per_lumi: int
    run: int
    numbering_from: int


@dataclass(frozen=True)
class Job:
    node: str
    files: tuple[InputFile, ...]
    generate: Generate | None
    mask: Lumis | None
    events: int

    @property
    def window_events(self) -> int:
        """Return the events in the job's windows, before any mask. The job cannot read more."""
        if self.generate is not None:
            return self.generate.last_event - self.generate.first_event + 1
        return sum(file.last_event - file.first_event + 1 for file in self.files)


@dataclass(frozen=True)
class OutputPlan:
    dataset: str
    unmerged_base: str
    merged_base: str


@dataclass(frozen=True)
class LogPlan:
    """Location of the log file of the group: reports and output of its jobs."""

    dataset: str
    lfn: str


@dataclass(frozen=True)
class PilotSettings:
    initial_events: int
    tolerance: float
    time_budget_sec: float
    target_job_sec: float


@dataclass(frozen=True)
class Pull:
    """URL at which runners request work, and the token with which they start."""

    url: str
    token: str


@dataclass(frozen=True)
class JobsManifest:
    """The work of the nodes of one group."""

    request_name: str
    workflow_id: str
    round: int
    group: str
    storage: str  # of a DAG without storage.json; '' = it has one
    outputs: tuple[OutputPlan, ...]
    payload: dict[str, Any]
    pilot: PilotSettings | None
    merged_ids: dict[str, str]
    jobs: dict[str, Job]
    cores: int = 1  # that each job was given
    # Lumis of the input files that no mask applies to, as the catalogue knows them; older DAGs have none.
    lumis: dict[str, Lumis] = field(default_factory=dict)
    log: LogPlan | None = None
    pull: Pull | None = None  # of a group of runners, whose jobs have no files

    def unmerged_directory(self, output: OutputPlan) -> str:
        return names.unmerged_directory(output.unmerged_base, self.workflow_id, self.group, self.round)

    def unmerged_lfn(self, node: str, index: int) -> str:
        name = names.unmerged_name(node, index, len(self.outputs))
        return f"{self.unmerged_directory(self.outputs[index])}/{name}"

    def is_unmerged(self, lfn: str) -> bool:
        """Return whether the file is in the group's own unmerged directories."""
        return any(lfn.startswith(f"{self.unmerged_directory(output)}/") for output in self.outputs)

    def merged_lfn(self, output: OutputPlan) -> str:
        return names.merged_lfn(output.merged_base, self.merged_ids[output.dataset])


@dataclass(frozen=True)
class MergedFile:
    dataset: str
    lfn: str
    size_bytes: int
    adler32: str
    events: int
    lumis: Lumis
    parents: tuple[str, ...]
    lumi_events: LumiEvents = field(default_factory=dict)

    @classmethod
    def of(cls, output: Output, parents: tuple[str, ...]) -> MergedFile:
        """Build it from the claim of the merge, whose file is in the primary storage of its site."""
        facts = {key: value for key, value in vars(output).items() if key != "place"}
        return cls(**facts, parents=parents)


@dataclass(frozen=True)
class Metrics:
    """Costs of the group's processing jobs; output_kb_per_event is per event read, over all datasets."""

    wall_time_per_event_sec: float
    peak_rss_mb: int
    output_kb_per_event: float
    cpu_efficiency: float
    jobs: int
    wall_time_sec: float
    job_wall_p95_sec: float = 0.0  # 0 = not measured


@dataclass(frozen=True)
class GroupManifest:
    """The outcome of one finished group."""

    workflow_id: str
    round: int
    group: str
    site: str
    jobs: int
    events_read: int
    events_written: int
    outputs: tuple[MergedFile, ...]
    metrics: Metrics
    pilot: PilotReport | None
    log: MergedFile | None = None


def read_jobs(path: Path, *, payload: Path | None = None, only: str = "") -> JobsManifest:
    """Raises ManifestError (ManifestMissing if there is no file) naming the field that is wrong.

    `payload` is the file of the payload configuration, one for all groups; without it there is none.
    `only` is the one node to read of the jobs: a group may have a thousand.
    """
    fields = Fields.of_file(path)
    storage = fields.text_or_empty("storage")
    if storage and prefix_problem(storage):
        fields.refuse("storage", "a storage prefix, with {site} where the site belongs")
    outputs = tuple(_parse_output_plan(one) for one in fields.children("outputs"))
    if not outputs or len({output.dataset for output in outputs}) != len(outputs):
        fields.refuse("outputs", "one or more different datasets")
    ids = fields.child("merged_ids")
    jobs = _parse_jobs(fields, only)
    return JobsManifest(
        request_name=fields.name("request_name", names.REQUEST, "a request name"),
        workflow_id=fields.name("workflow_id", names.ID, "an identifier"),
        round=fields.integer("round"),
        group=fields.name("group", names.NODE, "a group name"),
        storage=storage,
        outputs=outputs,
        payload=Fields(read_json(payload), payload.name).raw if payload else {},
        pilot=_parse_pilot_settings(fields.optional("pilot")),
        merged_ids={one.dataset: ids.name(one.dataset, names.ID, "an identifier") for one in outputs},
        jobs=jobs,
        cores=fields.integer("cores", minimum=1) if "cores" in fields.raw else 1,  # older DAGs do not say
        lumis=_parse_lumis(fields.optional("lumis"), jobs),
        log=_parse_log_plan(fields.optional("log")),
        pull=_parse_pull(fields.optional("pull")),
    )


def read_group_manifest(path: Path) -> GroupManifest:
    """Raises ManifestError (ManifestMissing if there is no file) naming the field that is wrong."""
    fields = Fields.of_file(path, claim=True)
    outputs = tuple(_parse_merged_file(one) for one in fields.children("outputs", most=MAX_LISTED))
    if not outputs or len({output.lfn for output in outputs}) != len(outputs):
        fields.refuse("outputs", "one or more different files")
    metrics, log = fields.child("metrics"), fields.optional("log")
    return GroupManifest(
        workflow_id=fields.name("workflow_id", names.ID, "an identifier"),
        round=fields.integer("round"),
        group=fields.name("group", names.NODE, "a group name"),
        site=fields.name("site", names.SITE, "a site name"),
        jobs=fields.integer("jobs", minimum=1),
        events_read=fields.integer("events_read"),
        events_written=fields.integer("events_written"),
        outputs=outputs,
        metrics=Metrics(
            wall_time_per_event_sec=metrics.number("wall_time_per_event_sec"),
            peak_rss_mb=metrics.integer("peak_rss_mb", maximum=MAX_MEGABYTES),
            output_kb_per_event=metrics.number("output_kb_per_event"),
            cpu_efficiency=metrics.number("cpu_efficiency"),
            jobs=metrics.integer("jobs"),
            wall_time_sec=metrics.number("wall_time_sec"),
            job_wall_p95_sec=metrics.number("job_wall_p95_sec") if "job_wall_p95_sec" in metrics.raw else 0.0,
        ),
        pilot=parse_pilot(fields.optional("pilot")),
        log=_parse_merged_file(log) if log else None,
    )


def write_group_manifest(path: Path, manifest: GroupManifest) -> None:
    write_json(path, {"schema": SCHEMA, **asdict(manifest)})


def _parse_output_plan(fields: Fields) -> OutputPlan:
    return OutputPlan(
        dataset=fields.name("dataset", names.DATASET, "/Primary/Processed/TIER"),
        unmerged_base=fields.name("unmerged_base", names.LFN_BASE, "/store/…"),
        merged_base=fields.name("merged_base", names.LFN_BASE, "/store/…"),
    )


def _parse_log_plan(fields: Fields | None) -> LogPlan | None:
    if fields is None:
        return None
    return LogPlan(
        dataset=fields.name("dataset", names.DATASET, "/Primary/Processed/TIER"),
        lfn=fields.name("lfn", names.LFN, "an LFN"),
    )


def _parse_pilot_settings(fields: Fields | None) -> PilotSettings | None:
    if fields is None:
        return None
    return PilotSettings(
        initial_events=fields.integer("initial_events", minimum=1),
        tolerance=fields.number("tolerance"),
        time_budget_sec=fields.number("time_budget_sec"),
        target_job_sec=fields.number("target_job_sec"),
    )


def _parse_pull(fields: Fields | None) -> Pull | None:
    return None if fields is None else Pull(url=fields.text("url"), token=fields.text("token"))


def _parse_lumis(fields: Fields | None, jobs: dict[str, Job]) -> dict[str, Lumis]:
    """Parse the known lumis of the input files."""
    read = {file.lfn for job in jobs.values() for file in job.files}
    return {} if fields is None else {lfn: fields.lumis(lfn) for lfn in fields.raw if lfn in read}


def _parse_jobs(fields: Fields, only: str) -> dict[str, Job]:
    jobs = {}
    for node, one in fields.members("jobs"):
        if only and node != only:
            continue
        if not names.matches(names.NODE, node):
            raise ManifestError(f"{one.where}: not a node name")
        jobs[node] = Job(
            node=node,
            files=tuple(_parse_input(file) for file in one.children("files")),
            generate=_parse_generate(one.optional("generate")),
            mask=None if one.raw.get("mask") is None else one.lumis("mask"),
            events=one.integer("events"),
        )
        planned = bool(jobs[node].files) + (jobs[node].generate is not None)
        if planned != (0 if fields.raw.get("pull") else 1):
            one.refuse("files", "either files to read or events to generate, not both, not neither")
    if not jobs and not (only and fields.child("jobs").raw):
        fields.refuse("jobs", "at least one job")
    return jobs


def _parse_input(fields: Fields) -> InputFile:
    file = InputFile(
        lfn=fields.name("lfn", names.LFN, "an LFN"),
        size_bytes=fields.integer("size_bytes"),
        adler32=_parse_checksum(fields),
        events=fields.integer("events"),
        first_event=fields.integer("first_event"),
        last_event=fields.integer("last_event", minimum=-1),
        mask=None if fields.raw.get("mask") is None else fields.lumis("mask"),
    )
    if not file.first_event - 1 <= file.last_event < max(file.events, 1):
        fields.refuse("last_event", f"a window from {file.first_event} inside {file.events} events")
    return file


def _parse_checksum(fields: Fields) -> str:
    """Parse eight hexadecimal digits, or '' where the catalogue has no checksum."""
    found = fields.name(
        "adler32", names.CATALOGUE_ADLER32, "up to eight hexadecimal digits or ''", empty=True
    )
    return "" if found in ("", "NOTSET") else found.lower().zfill(8)


def _parse_generate(fields: Fields | None) -> Generate | None:
    if fields is None:
        return None
    first = fields.integer("first_event")
    return Generate(
        first_event=first,
        last_event=fields.integer("last_event", minimum=first),
        first_lumi=fields.integer("first_lumi"),
        events_per_lumi=fields.integer("events_per_lumi", minimum=1),
        run=fields.integer("run"),
        numbering_from=fields.integer("numbering_from") if "numbering_from" in fields.raw else first,
    )


def _parse_merged_file(fields: Fields) -> MergedFile:
    return MergedFile.of(parse_output(fields), fields.name_list("parents", names.LFN, "LFN"))
