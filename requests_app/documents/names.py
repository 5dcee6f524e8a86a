"""Every field a document may carry, under WMS2's own name and under ReqMgr2's."""

from __future__ import annotations

import re

# WMS2's name -> ReqMgr2's. Messages use whichever the author used.
ALIASES: dict[str, str] = {
    "request_name": "RequestName",
    "request_string": "RequestString",
    "requestor": "Requestor",
    "requestor_dn": "RequestorDN",
    "group": "Group",
    "campaign": "Campaign",
    "prep_id": "PrepID",
    "priority": "RequestPriority",
    "urgent": "Urgent",
    "adaptive": "Adaptive",
    "allocation": "Allocation",
    "wms_backend": "WmsBackend",
    "correlation_id": "CorrelationId",
    "submitted_by": "SubmittedBy",
    "callback_url": "CallbackUrl",
    "previous_version_request": "PreviousVersionRequest",
    "cleanup_policy": "CleanupPolicy",
    "input_dataset": "InputDataset",
    "secondary_input_dataset": "SecondaryInputDataset",
    "secondary_input_datasets": "SecondaryInputDatasets",
    "mc_pileup": "MCPileup",
    "data_pileup": "DataPileup",
    "output_datasets": "OutputDatasets",
    "total_events": "RequestNumEvents",
    "filter_efficiency": "FilterEfficiency",
    "first_event": "FirstEvent",
    "first_lumi": "FirstLumi",
    "splitting_algo": "SplittingAlgo",
    "splitting_params": "SplittingParams",
    "primary_dataset": "PrimaryDataset",
    "acquisition_era": "AcquisitionEra",
    "processing_string": "ProcessingString",
    "processing_version": "ProcessingVersion",
    "keep_output": "KeepOutput",
    "merged_lfn_base": "MergedLFNBase",
    "unmerged_lfn_base": "UnmergedLFNBase",
    "target_merged_size_kb": "TargetMergedSizeKB",
    "max_merge_size": "MaxMergeSize",
    "category_throttles": "CategoryThrottles",
    "memory_mb": "Memory",
    "cores": "Multicore",
    "time_per_event_sec": "TimePerEvent",
    "size_per_event_kb": "SizePerEvent",
    "site_whitelist": "SiteWhitelist",
    "site_blacklist": "SiteBlacklist",
    "cmssw_version": "CMSSWVersion",
    "scram_arch": "ScramArch",
    "global_tag": "GlobalTag",
    "sandbox_url": "SandboxUrl",
    "config_cache_id": "ConfigCacheID",
    "payload_config": "PayloadConfig",
}

SPLITTING: dict[str, str] = {
    "files_per_job": "FilesPerJob",
    "events_per_job": "EventsPerJob",
    "events_per_job_fixed": "EventsPerJobFixed",
    "events_per_lumi": "EventsPerLumi",
    "lumi_mode": "LumiMode",
    "lumis_per_job": "LumisPerJob",
    "job_time_limit": "JobTimeLimit",
    "include_parents": "IncludeParents",
    "split_on_run": "SplitOnRun",
    "halt_job_on_file_boundaries": "HaltJobOnFileBoundaries",
    "apply_lumi_correction": "ApplyLumiCorrection",
    "run_whitelist": "RunWhitelist",
    "run_blacklist": "RunBlacklist",
    "block_whitelist": "BlockWhitelist",
    "block_blacklist": "BlockBlacklist",
    "lumi_mask": "LumiList",
}
# Early stops make sense beside a splitter only: at the top, total_events is the size of the request.
EARLY_STOPS = ("total_files", "total_lumis", "total_events")

REQMGR2_NAME: dict[str, str] = SPLITTING | ALIASES
DOCUMENT_NAMES = frozenset({*REQMGR2_NAME, *REQMGR2_NAME.values()})
SPLITTING_NAMES = frozenset({*SPLITTING, *SPLITTING.values(), *EARLY_STOPS})

# Objects by nature; any other object is a set of values keyed by task or step name.
OBJECT_FIELDS = frozenset({"splitting_params", "payload_config", "lumi_mask", "category_throttles"})
# An empty text here is a mistake worth telling, not a field left out.
NEVER_EMPTY = frozenset(
    {
        "request_name",
        "input_dataset",
        "secondary_input_dataset",
        "secondary_input_datasets",
        "mc_pileup",
        "data_pileup",
        "splitting_algo",
    }
)

SET_BY_WMS2 = frozenset(
    {
        "id",
        "status",
        "status_since",
        "status_transitions",
        "superseded_by_request",
        "created_at",
        "updated_at",
    }
)
# ReqMgr2's own records about a request: neither typed nor of use to the payload, partly personal.
BOOKKEEPING = frozenset(
    {
        "Comments",
        "CouchURL",
        "CouchWorkloadDBName",
        "Dashboard",
        "DashboardHost",
        "DashboardPort",
        "InitialPriority",
        "OutputModulesLFNBases",
        "PriorityTransition",
        "RequestDate",
        "RequestStatus",
        "RequestTransition",
        "RequestWorkflow",
        "Team",
        "TotalEstimatedJobs",
        "TotalInputEvents",
        "TotalInputFiles",
        "TotalInputLumis",
        "VoGroup",
        "VoRole",
    }
)
# Typed fields the payload needs to see as well.
SHARED_WITH_PAYLOAD = frozenset(
    {"CMSSWVersion", "ScramArch", "GlobalTag", "ConfigCacheID", "Multicore", "MCPileup", "DataPileup"}
)
# Work left over from another request's failures; only WMCore's agents keep such collections.
RESUBMISSION_FIELDS = ("ACDCServer", "ACDCDatabase", "CollectionName", "InitialTaskPath")

STEP_KEY = re.compile(r"(Task|Step)([1-9][0-9]{0,3})", re.ASCII)
PLACEHOLDER_END = "-OVERRIDE-ME"
