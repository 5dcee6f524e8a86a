"""The states of rounds, DAGs, merge groups and input files. Pure data."""

from __future__ import annotations

from enum import StrEnum


class SplittingAlgo(StrEnum):
    """How input becomes jobs; the semantics are those of WMCore's algorithms of the same names."""

    FILE_BASED = "FileBased"
    EVENT_BASED = "EventBased"
    LUMI_BASED = "LumiBased"
    EVENT_AWARE_LUMI_BASED = "EventAwareLumiBased"


class RoundKind(StrEnum):
    """What a round is for."""

    PILOT = "pilot"  # one job that measures; its output is as real as any other
    PRODUCTION = "production"


class RoundStatus(StrEnum):
    """How far a round is. A round is resolved once, when all its groups are credited or given up."""

    PLANNED = "planned"
    RESOLVED = "resolved"


class DAGStatus(StrEnum):
    """Where one submission to DAGMan stands."""

    READY = "ready"  # intent written; the token may or may not be in a schedd yet
    SUBMITTED = "submitted"
    RUNNING = "running"
    HALTED = "halted"  # held by an operator
    COMPLETED = "completed"
    PARTIAL = "partial"
    FAILED = "failed"
    REMOVED = "removed"
    STOPPED = "stopped"  # clean stop: what is done is kept, the rest may resume


class DAGKind(StrEnum):
    """Why a DAG was submitted. Only a rescue counts against the rescue limit."""

    FIRST = "first"
    RESCUE = "rescue"
    RESUME = "resume"


class GroupStatus(StrEnum):
    """Where a merge group stands; `collected` means its outputs are in our tables."""

    PLANNED = "planned"
    DONE = "done"
    COLLECTED = "collected"
    FAILED = "failed"


class FileState(StrEnum):
    """The ledger state of one input file."""

    FRESH = "fresh"
    ASSIGNED = "assigned"
    PROCESSED = "processed"
    ATTEMPTED = "attempted"
    EXCLUDED = "excluded"


class ScheddStatus(StrEnum):
    """May new DAGs go to a schedd? One that drains keeps what it runs until its deadline."""

    ENABLED = "enabled"
    DRAINING = "draining"
    FENCED = "fenced"  # lost: a person vouches that nothing runs there, so nobody waits for its answer


class QuarantineState(StrEnum):
    """Is a copy of a file that was proved bad still avoided?"""

    IN_FORCE = "in_force"
    LIFTED = "lifted"
    EXPIRED = "expired"


LIVE_DAG = frozenset({DAGStatus.READY, DAGStatus.SUBMITTED, DAGStatus.RUNNING, DAGStatus.HALTED})
IN_QUEUE = LIVE_DAG - {DAGStatus.READY}
FAILED_DAG = frozenset({DAGStatus.PARTIAL, DAGStatus.FAILED})
# Not done, and not because WMS2 stopped it.
ENDED_BY_ITSELF = FAILED_DAG | {DAGStatus.REMOVED}
UNFINISHED_FILE = frozenset({FileState.FRESH, FileState.ASSIGNED, FileState.ATTEMPTED})
