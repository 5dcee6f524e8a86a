"""Names in documents that are not fields of a request: those of WMS2 itself and others of ReqMgr2."""

from __future__ import annotations

import re

SET_BY_WMS2 = frozenset((
    "id", "status", "status_since", "status_transitions", "superseded_by_request", "created_at", "updated_at",
))  # fmt: skip
# ReqMgr2's own records about a request: neither typed nor of use to the payload, partly personal.
BOOKKEEPING = frozenset((
    "Comments", "CouchURL", "CouchWorkloadDBName", "Dashboard", "DashboardHost", "DashboardPort",
    "InitialPriority", "OutputModulesLFNBases", "PriorityTransition", "RequestDate", "RequestStatus",
    "RequestTransition", "RequestWorkflow", "Team", "TotalEstimatedJobs", "TotalInputEvents",
    "TotalInputFiles", "TotalInputLumis", "VoGroup", "VoRole",
))  # fmt: skip
# Further names of ReqMgr2 that resemble one of a field without being a misspelling of it.
LOOKALIKES = frozenset({"ConfigCacheUrl", "MinMergeSize"})
# Work left over from another request's failures; only WMCore's agents keep such collections.
RESUBMISSION_FIELDS = ("ACDCServer", "ACDCDatabase", "CollectionName", "InitialTaskPath")

STEP_KEY = re.compile(r"(Task|Step)([1-9][0-9]{0,3})", re.ASCII)
PLACEHOLDER_END = "-OVERRIDE-ME"
