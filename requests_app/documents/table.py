"""The fields of a request document, each declared once.

Reading, validation, edits, the API's inputs, the console's forms, OpenAPI and docs/request-fields.md are
derived from this table. Python types and defaults are those of `RequestSpec` and `SplittingParams`.
"""

from __future__ import annotations

from dataclasses import MISSING, dataclass, fields
from enum import StrEnum
from functools import partial
from typing import Any

from dags_app.states import SplittingAlgo
from requests_app.documents.parsers import (
    Kind,
    choice,
    first_of,
    flag,
    lfn_base,
    limits,
    lumi_mask,
    mapping,
    moment,
    named,
    positive,
    runs,
    secure_url,
    several,
    text,
    whole,
)
from requests_app.documents.spec import Allocation, Backend, LumiMode, RequestSpec, SplittingParams
from requests_app.states import CleanupPolicy
from wms2_project.grammar import Name


class Read(StrEnum):
    """Steps of a chain that may state the field."""

    REQUEST = "request"
    FIRST = "first step"
    OWN = "request, by a function of its own"
    OWN_FIRST = "first step, by a function of its own"
    STEPS = "every step, by a function that combines them"


@dataclass(frozen=True, slots=True)
class Field:
    """A field: its names, the kind of its values, where it is read and stored, and its description."""

    name: str
    reqmgr2: str  # name in ReqMgr2's documents; empty if there is none
    kind: Kind[Any]
    description: str
    read: Read = Read.REQUEST
    stored: str = "workflow"  # tables, or columns that have another name
    default: Any = ...  # by default that of RequestSpec or SplittingParams
    label: str = ""  # in forms; derived from the name if empty
    editable: bool = False  # also after submission
    refuses_empty: bool = False  # an empty text is an error; otherwise it means absent
    for_payload: bool = False  # also passed to jobs, under ReqMgr2's name

    def __post_init__(self) -> None:
        if self.default is ...:
            object.__setattr__(self, "default", _DEFAULTS.get(self.name))

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that store the field, as TABLE.NAME."""
        return tuple(one if "." in one else f"{one}.{self.name}" for one in self.stored.split())


_DEFAULTS = {
    one.name: one.default if one.default_factory is MISSING else one.default_factory()
    for one in (*fields(SplittingParams), *fields(RequestSpec))
}

# Every running group needs a DAGMan, and a schedd runs at most 200 per owner.
_THROTTLES = limits({"Processing": 100_000, "Merge": 10_000, "Cleanup": 10_000, "MergeGroup": 150})
_WORD, _SHORT_WORD = named(Name.WORD), named(Name.WORD, 100)
_TOKEN = text(r"[A-Za-z0-9][A-Za-z0-9_.:@/=+-]{0,199}", "letters, digits and any of _ . : @ / = + -")
_SUBMITTER = text(r"[A-Za-z0-9_.:@=/+ -]{1,240}", "letters, digits, spaces and any of _ . : @ / = + -")
_DN = text(r"/[A-Za-z0-9 ._@=/:,'()+-]{1,400}", "a distinguished name such as /DC=ch/CN=ana")
_SHA256 = text(r"[0-9a-f]{64}", "64 lower-case hexadecimal digits")
_GLOBAL_TAG = text(r"[A-Za-z0-9][A-Za-z0-9_.:-]{0,199}", "letters, digits and any of _ . : -")
_ERA = text(r"[A-Za-z0-9][A-Za-z0-9_]{0,98}", "letters, digits and '_'")
_PRIMARY = text(r"[A-Za-z0-9_-]{1,99}", "letters, digits, '_' and '-', at most 99")
_DATASETS = several(named(Name.DATASET), 50)
_SITES = several(named(Name.SITE), 1000)
_BLOCKS = several(named(Name.BLOCK))
_NUMBER = whole(1, 2**32 - 1)
_EVENTS = whole(1, 10**12)
_EVENTS_PER_JOB = whole(1, 1_000_000_000)
_MAX_MERGED_KB = 1_000_000_000
FIRST, STEPS, OWN, OWN_FIRST = Read.FIRST, Read.STEPS, Read.OWN, Read.OWN_FIRST
_split = partial(Field, read=FIRST, stored="workflow.splitting_params")

DOCUMENT: tuple[Field, ...] = (
    Field("request_name", "RequestName", named(Name.REQUEST),
        "Name of the request. Made from requestor, request string and time if absent.",
        stored="request workflow", refuses_empty=True),
    Field("request_string", "RequestString", _WORD, "Middle part of a name that WMS2 makes.", stored="",
        default=""),
    Field("requestor", "Requestor", _SHORT_WORD, "Account the request belongs to. The caller if absent.",
        stored="request"),
    Field("requestor_dn", "RequestorDN", _DN, "Certificate subject of the requestor.", stored="request"),
    Field("group", "Group", _SHORT_WORD, "Group whose quota the request uses.", stored="request"),
    Field("campaign", "Campaign", _WORD, "Campaign of the request. The acquisition era if absent.",
        stored="request"),
    Field("prep_id", "PrepID", _WORD, "Identifier in the system that prepared the request."),
    Field("priority", "RequestPriority", whole(0, 1_000_000),
        "Order in the admission queue and of the jobs. Higher runs first.", stored="request", editable=True),
    Field("urgent", "Urgent", flag, "Start production without a pilot.", stored="request"),
    Field("adaptive", "Adaptive", flag, "Start with small rounds and plan the next ones from measurements."),
    Field("allocation", "Allocation", choice(Allocation),
        "How jobs get their files: the plan assigns them (push), or running jobs request them (pull), see"
        " docs/pull.md."),
    Field("pull_jobs", "PullJobs", whole(1, 100_000), "Maximum number of jobs per round of a pull request."),
    Field("max_distance", "MaxDistance", whole(0, 100),
        "Distance from which jobs of a pull request may read files: 0 storage of the site, 50 same country,"
        " 100 everywhere."),
    Field("follow_input_until", "FollowInputUntil", moment,
        "Until when files that are added to the input are processed, too. Needs allocation pull."),
    Field("input_from", "InputFrom", named(Name.REQUEST),
        "Request whose outputs are the input, as they are confirmed. Needs allocation pull.", stored=""),
    Field("wms_backend", "WmsBackend", choice(Backend),
        "Workload manager that runs the request. WMS2 accepts its own only.", stored="request"),
    Field("correlation_id", "CorrelationId", _TOKEN, "Identifier in the system of the caller.",
        stored="request"),
    Field("submitted_by", "SubmittedBy", _SUBMITTER,
        "Account that submitted the request. Only operators may set it.", stored="request"),
    Field("callback_url", "CallbackUrl", secure_url, "Address that is notified when the request ends.",
        stored="request"),
    Field("previous_version_request", "PreviousVersionRequest", named(Name.REQUEST),
        "Request whose outputs this one replaces.", stored="request.previous_version"),
    Field("cleanup_policy", "CleanupPolicy", choice(CleanupPolicy),
        "What happens to the outputs of the previous version once this one is complete.", stored="request"),
    Field("input_dataset", "InputDataset", named(Name.DATASET),
        "Dataset to process. Without it the request generates events.", read=OWN_FIRST, refuses_empty=True),
    Field("input_datasets", "InputDatasets", several(named(Name.DATASET), 1000),
        "Datasets to process together, instead of input_dataset. The first one gives the outputs their name.",
        read=OWN_FIRST, stored="workflow.further_input_datasets", default=(), refuses_empty=True),
    Field("secondary_input_dataset", "SecondaryInputDataset", _DATASETS, "Further dataset that jobs read.",
        read=STEPS, stored="", default=(), refuses_empty=True),
    Field("secondary_input_datasets", "SecondaryInputDatasets", _DATASETS,
        "Further datasets that jobs read.", read=STEPS, refuses_empty=True),
    Field("mc_pileup", "MCPileup", _DATASETS, "Simulated pileup that jobs read.", read=STEPS, stored="",
        default=(), refuses_empty=True, for_payload=True),
    Field("data_pileup", "DataPileup", _DATASETS, "Recorded pileup that jobs read.", read=STEPS, stored="",
        default=(), refuses_empty=True, for_payload=True),
    Field("output_datasets", "OutputDatasets", several(named(Name.DATASET), 100),
        "Datasets to write. Named by primary dataset, era, string and version if absent.", read=OWN),
    Field("log_dataset", "LogDataset", named(Name.DATASET),
        "Dataset, in Rucio only, of one log file per merge group: reports and output of its jobs.",
        refuses_empty=True),
    Field("total_events", "RequestNumEvents", _EVENTS,
        "Events wanted in the output of a request without input, after the filter.", read=OWN_FIRST),
    Field("filter_efficiency", "FilterEfficiency", positive(1.0),
        "Fraction of generated events that is kept.", read=OWN_FIRST),
    Field("first_event", "FirstEvent", _NUMBER, "Number of the first generated event.", read=OWN_FIRST,
        stored="workflow.next_first_event"),
    Field("first_lumi", "FirstLumi", _NUMBER, "Number of the first generated lumi section.", read=OWN_FIRST,
        stored="workflow.next_first_lumi"),
    Field("splitting_algo", "SplittingAlgo", choice(SplittingAlgo),
        "How input is split into jobs. Requests without input use EventBased.", read=FIRST,
        refuses_empty=True),
    Field("splitting_params", "SplittingParams", mapping, "Splitting parameters, see below.", read=OWN_FIRST,
        default={}),
    Field("primary_dataset", "PrimaryDataset", _PRIMARY,
        "First part of output names. That of the input if absent.", read=STEPS),
    Field("acquisition_era", "AcquisitionEra", _ERA, "First word of the second part of output names.",
        read=STEPS),
    Field("processing_string", "ProcessingString", _WORD,
        "Further words of the second part of output names.", read=STEPS),
    Field("processing_version", "ProcessingVersion", whole(1, 9999),
        "Version at the end of the second part of output names.", read=STEPS, stored="request workflow"),
    Field("keep_output", "KeepOutput", flag, "Whether the output of the step is kept.", read=STEPS,
        stored="", default=True),
    Field("merged_lfn_base", "MergedLFNBase", lfn_base,
        "Directory of the final files. /store/mc for simulation and /store/data otherwise if absent."),
    Field("unmerged_lfn_base", "UnmergedLFNBase", lfn_base, "Directory of the files before the merge."),
    Field("target_merged_size_kb", "TargetMergedSizeKB", whole(1, _MAX_MERGED_KB, "kB"),
        "Size of a merged file in kB."),
    Field("max_merge_size", "MaxMergeSize", whole(1024, _MAX_MERGED_KB * 1024, "bytes"),
        "Size of a merged file in bytes, used if target_merged_size_kb is absent.", stored=""),
    Field("memory_mb", "Memory", whole(1, 2_000_000, "MB"),
        "Memory per job in MB, the most of any step. Outranks measurements if set by an operator.",
        read=STEPS, label="Memory per job (MB)", editable=True),
    Field("cores", "Multicore", whole(1, 512), "Cores per job, the most of any step.", read=STEPS,
        for_payload=True),
    Field("time_per_event_sec", "TimePerEvent", positive(864_000.0, "seconds"),
        "Time per event in seconds, the sum of the steps. Outranks measurements if set by an operator.",
        read=STEPS, label="Time per event (s)"),
    Field("size_per_event_kb", "SizePerEvent", positive(100_000_000.0, "kB"),
        "Output per event in kB, the sum of the steps that keep theirs.", read=STEPS),
    Field("site_whitelist", "SiteWhitelist", _SITES, "Sites where jobs may run. Leave empty for all sites.",
        label="Allowed sites", editable=True),
    Field("site_blacklist", "SiteBlacklist", _SITES, "Sites where no job may run.", label="Excluded sites",
        editable=True),
    Field("retry_count", "RetryCount", whole(0, 20), "Retries of a failed processing job.",
        stored="workflow.chosen_retries"),
    Field("category_throttles", "CategoryThrottles", _THROTTLES,
        "Most running at a time: Processing, Merge and Cleanup jobs of a group, MergeGroup groups.",
        label="Throttles", editable=True),
    Field("cmssw_version", "CMSSWVersion", named(Name.RELEASE, 100), "Software release.", read=FIRST,
        for_payload=True),
    Field("scram_arch", "ScramArch", first_of(_SHORT_WORD), "Architecture, the first one of a list.",
        read=FIRST, for_payload=True),
    Field("global_tag", "GlobalTag", _GLOBAL_TAG, "Conditions that jobs use.", read=FIRST, for_payload=True),
    Field("sandbox_url", "SandboxUrl", secure_url,
        "Address of a tarball with files of the payload. Needs sandbox_sha256."),
    Field("sandbox_sha256", "SandboxSha256", _SHA256,
        "SHA-256 of the tarball at sandbox_url, or of one that was uploaded.", stored=""),
    Field("config_cache_id", "ConfigCacheID", _SHORT_WORD, "Identifier of the configuration.", read=FIRST,
        for_payload=True),
    Field("payload_config", "PayloadConfig", mapping,
        "What the jobs run: its kind and the configuration of the kind, see docs/payloads.md."),
)  # fmt: skip

# Read from splitting_params, or else from the document; all are stored in workflow.splitting_params. The
# early stops have no other name: in the document, total_events is the size of the request.
SPLITTING: tuple[Field, ...] = (
    _split("files_per_job", "FilesPerJob", whole(1, 100_000), "Files per job, for FileBased."),
    _split("events_per_job", "EventsPerJob", _EVENTS_PER_JOB,
        "Events per job. As many as take 12 hours if absent.", read=OWN_FIRST, default=None),
    _split("events_per_job_fixed", "EventsPerJobFixed", flag,
        "Keep events_per_job regardless of measurements. True if absent and events_per_job is given.",
        read=OWN_FIRST),
    _split("events_per_lumi", "EventsPerLumi", _EVENTS_PER_JOB, "Events per generated lumi section.",
        read=OWN_FIRST),
    _split("lumi_mode", "LumiMode", choice(LumiMode),
        "Whether generated lumi sections end with a job or continue through a merge group."),
    _split("lumis_per_job", "LumisPerJob", whole(1, 1_000_000), "Lumi sections per job, for LumiBased."),
    _split("job_time_limit", "JobTimeLimit", whole(1, 30 * 24 * 3600, "seconds"),
        "Longest time of a job in seconds. Lumi sections that would take longer are not processed."),
    _split("include_parents", "IncludeParents", flag, "Whether jobs also read the parents of their files."),
    _split("split_on_run", "SplitOnRun", flag, "Whether a job reads one run only."),
    _split("gather_runs", "GatherRuns", flag,
        "Whether a job reads the lumi sections of a run from all files at its sites, for LumiBased."),
    _split("halt_job_on_file_boundaries", "HaltJobOnFileBoundaries", flag, "Whether a job ends with a file."),
    _split("apply_lumi_correction", "ApplyLumiCorrection", flag,
        "Whether lumi sections spread over several files are read by one job."),
    _split("run_whitelist", "RunWhitelist", runs, "Runs to process. All if empty."),
    _split("run_blacklist", "RunBlacklist", runs, "Runs to leave out."),
    _split("block_whitelist", "BlockWhitelist", _BLOCKS, "Blocks of the input to process. All if empty."),
    _split("block_blacklist", "BlockBlacklist", _BLOCKS, "Blocks of the input to leave out."),
    _split("lumi_mask", "LumiList", lumi_mask,
        'Lumi sections to process, as {"run": [[first, last], …]}. All if empty.'),
    _split("total_files", "", _EVENTS, "Stop after this many files.", read=OWN_FIRST),
    _split("total_lumis", "", _EVENTS, "Stop after this many lumi sections.", read=OWN_FIRST),
    _split("total_events", "", _EVENTS, "Stop after this many events of the input.", read=OWN_FIRST),
)  # fmt: skip

FIELD = {one.name: one for one in (*SPLITTING, *DOCUMENT)}  # fields at the top level of a document
EDITABLE = tuple(one for one in DOCUMENT if one.editable)
REQMGR2_NAME = {one.name: one.reqmgr2 for one in FIELD.values() if one.reqmgr2}
DOCUMENT_NAMES = frozenset({*REQMGR2_NAME, *REQMGR2_NAME.values()})
SPLITTING_NAMES = frozenset({one for field in SPLITTING for one in (field.name, field.reqmgr2) if one})
# Fields whose value is an object; elsewhere an object holds values keyed by task or step name.
OBJECT_FIELDS = frozenset(name for name, one in FIELD.items() if one.kind.schema["type"] == "object")


def columns_of(row: RequestSpec, table: str) -> dict[str, Any]:
    """Return the columns of `table` (request or workflow) that hold fields of the document as they are."""
    names = {column: one.name for one in DOCUMENT for column in one.columns}
    values = {
        column.removeprefix(f"{table}."): getattr(row, name)
        for column, name in names.items()
        if column.startswith(f"{table}.")
    }
    return {name: list(value) if isinstance(value, tuple) else value for name, value in values.items()}
