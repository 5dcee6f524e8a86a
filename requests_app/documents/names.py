"""Names in documents that are not fields of a request: those set by WMS2, and further ones of ReqMgr2."""

from __future__ import annotations

import re

SET_BY_WMS2 = frozenset((
    "id", "status", "status_since", "status_transitions", "superseded_by_request", "created_at", "updated_at",
))  # fmt: skip
# ReqMgr2's own records about a request. Not passed to the payload; partly personal data.
BOOKKEEPING = frozenset((
    "Comments", "CouchURL", "CouchWorkloadDBName", "Dashboard", "DashboardHost", "DashboardPort",
    "InitialPriority", "OutputModulesLFNBases", "PriorityTransition", "RequestDate", "RequestStatus",
    "RequestTransition", "RequestWorkflow", "Team", "TotalEstimatedJobs", "TotalInputEvents",
    "TotalInputFiles", "TotalInputLumis", "VoGroup", "VoRole",
))  # fmt: skip
# Names of ReqMgr2 that resemble a field but are not misspelt.
LOOKALIKES = frozenset({"ConfigCacheUrl", "MinMergeSize"})
# Fields of resubmissions, which refer to collections kept by WMCore's agents.
RESUBMISSION_FIELDS = ("ACDCServer", "ACDCDatabase", "CollectionName", "InitialTaskPath")

STEP_KEY = re.compile(r"(Task|Step)([1-9][0-9]{0,3})", re.ASCII)
PLACEHOLDER_END = "-OVERRIDE-ME"
