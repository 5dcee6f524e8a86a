"""The typed and normalised request, independent of the format of its document.

Reading `spec.to_document()` gives an equal spec, so a spec may be stored, cloned and read again.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from enum import StrEnum
from typing import Any

from dags_app.planning.parameters import SplitterParams
from dags_app.states import SplittingAlgo
from requests_app.states import CleanupPolicy


class Allocation(StrEnum):
    """Assignment of files to jobs: by the plan, or at run time when jobs request them."""

    PUSH = "push"
    PULL = "pull"


class Backend(StrEnum):
    """Workload manager chosen by the requestor; WMS2 ignores `wmcore` requests."""

    WMS2 = "wms2"
    WMCORE = "wmcore"


_SIMULATED_TIERS = ("SIM", "GEN", "LHE", "PREMIX")


class LumiMode(StrEnum):
    """Whether each generating job starts new lumis, or lumis continue through a merge group."""

    PER_JOB = "per_job"
    PER_GROUP = "per_group"


LumiMask = Mapping[int, tuple[tuple[int, int], ...]]


@dataclass(frozen=True, slots=True)
class OutputSpec:
    """An output dataset, and the directories of its files before and after the merge."""

    dataset: str
    merged_lfn_base: str
    unmerged_lfn_base: str


@dataclass(frozen=True, slots=True)
class SplittingParams(SplitterParams):
    """Splitting of a request. Ranges are inclusive; an empty list or mask selects everything.

    `events_per_job` is derived from the time per event unless the requestor fixed it; only then
    measurements leave it as it is. `events_per_lumi` applies to requests that generate events.
    """

    files_per_job: int = 1
    events_per_job: int = 1
    lumis_per_job: int = 8
    events_per_job_fixed: bool = False
    lumi_mode: LumiMode = LumiMode.PER_JOB
    include_parents: bool = False
    run_whitelist: tuple[int, ...] = ()
    run_blacklist: tuple[int, ...] = ()
    block_whitelist: tuple[str, ...] = ()
    block_blacklist: tuple[str, ...] = ()
    lumi_mask: LumiMask = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Return the parameters as plain JSON, without empty ones."""
        mask = {str(run): [list(pair) for pair in pairs] for run, pairs in self.lumi_mask.items()}
        plain = {f.name: getattr(self, f.name) for f in fields(self)} | {"lumi_mask": mask}
        return {
            name: list(value) if isinstance(value, tuple) else value
            for name, value in plain.items()
            if value not in (None, (), {}, LumiMode.PER_JOB)
        }


@dataclass(frozen=True, slots=True)
class RequestSpec:
    """A request as read from its document. `payload_config` is the configuration of its payload.

    Without an input dataset the request generates events: `total_events` counts those wanted in the output,
    after the generator's filter has kept the fraction `filter_efficiency`.
    """

    request_name: str = ""
    requestor: str = "unknown"
    requestor_dn: str = ""
    group: str = ""
    campaign: str = ""
    prep_id: str = ""
    priority: int = 100_000
    urgent: bool = False
    adaptive: bool = False
    allocation: Allocation = Allocation.PUSH
    pull_jobs: int = 100
    max_distance: int = 0
    follow_input_until: str | None = None
    input_from: str = ""
    wms_backend: Backend = Backend.WMS2
    correlation_id: str = ""
    submitted_by: str = ""
    callback_url: str = ""
    previous_version_request: str = ""
    cleanup_policy: CleanupPolicy = CleanupPolicy.KEEP_UNTIL_REPLACED

    input_dataset: str | None = None
    further_input_datasets: tuple[str, ...] = ()
    secondary_input_datasets: tuple[str, ...] = ()
    total_events: int | None = None
    filter_efficiency: float = 1.0
    first_event: int = 1
    first_lumi: int = 1
    splitting_algo: SplittingAlgo = SplittingAlgo.EVENT_AWARE_LUMI_BASED
    splitting_params: SplittingParams = field(default_factory=SplittingParams)

    primary_dataset: str = ""
    acquisition_era: str = ""
    processing_string: str = ""
    processing_version: int = 1
    output_datasets: tuple[OutputSpec, ...] = ()
    log_dataset: str | None = None
    merged_lfn_base: str = ""
    unmerged_lfn_base: str = "/store/unmerged"
    target_merged_size_kb: int = 4 * 1024 * 1024
    category_throttles: Mapping[str, int] = field(default_factory=dict)
    retry_count: int | None = None

    memory_mb: int = 2300
    cores: int = 1
    time_per_event_sec: float = 12.0
    size_per_event_kb: float = 512.0
    site_whitelist: tuple[str, ...] = ()
    site_blacklist: tuple[str, ...] = ()

    cmssw_version: str = ""
    scram_arch: str = ""
    global_tag: str = ""
    sandbox_url: str = ""
    sandbox_sha256: str = ""
    config_cache_id: str = ""
    payload_config: Mapping[str, Any] = field(default_factory=dict)

    @property
    def input_datasets(self) -> tuple[str, ...]:
        """The datasets to process; empty if the request generates events."""
        return (self.input_dataset, *self.further_input_datasets) if self.input_dataset else ()

    @property
    def generates(self) -> bool:
        """Whether the request generates its events instead of reading files."""
        return not self.input_from and self.input_dataset is None

    @property
    def simulated(self) -> bool:
        """Whether the events are simulated, generated here or read, rather than detector data."""
        tiers = [dataset.rpartition("/")[2] for dataset in self.input_datasets]
        return self.generates or any(mark in tier for mark in _SIMULATED_TIERS for tier in tiers)

    @property
    def gpus(self) -> int:
        """GPUs per job: a job runs every step, so one step that requires a GPU is enough."""
        steps = [self.payload_config, *self.payload_config.values()]
        required = any(isinstance(step, Mapping) and step.get("RequiresGPU") == "required" for step in steps)
        return int(required)

    @property
    def events_to_generate(self) -> int:
        """Events to plan so that `total_events` remain after the filter; 0 if input is read."""
        return math.ceil((self.total_events or 0) / self.filter_efficiency)

    @property
    def output_kb_per_event(self) -> float:
        """Expected output per processed event, including filtered ones."""
        return self.size_per_event_kb * (self.filter_efficiency if self.generates else 1.0)

    def to_document(self) -> dict[str, Any]:
        """Return the request as a document with WMS2's field names, as plain JSON without unset fields."""
        document = {f.name: getattr(self, f.name) for f in fields(self)}
        if document.pop("further_input_datasets"):
            document |= {"input_dataset": None, "input_datasets": self.input_datasets}
        document["output_datasets"] = [output.dataset for output in self.output_datasets]
        document["splitting_params"] = self.splitting_params.to_json()
        document["payload_config"] = dict(self.payload_config)
        for name, value in document.items():
            if isinstance(value, StrEnum):
                document[name] = value.value
            elif isinstance(value, tuple):
                document[name] = list(value)
        return {name: value for name, value in document.items() if value not in (None, "", [], {})}
