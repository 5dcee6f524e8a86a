"""States of rounds, DAGs, merge groups, input files and runners. Pure data."""

from __future__ import annotations

from enum import StrEnum


class SplittingAlgo(StrEnum):
    """Splitting algorithms, with the semantics of WMCore's algorithms of the same names."""

    FILE_BASED = "FileBased"
    EVENT_BASED = "EventBased"
    LUMI_BASED = "LumiBased"
    EVENT_AWARE_LUMI_BASED = "EventAwareLumiBased"


class RoundKind(StrEnum):
    """Purpose of a round."""

    PILOT = "pilot"  # one job that measures; its output counts
    PRODUCTION = "production"
    PULL = "pull"  # of runners, which request their files


class RoundStatus(StrEnum):
    """Status of a round. It is resolved once, when all its groups are credited or given up."""

    PLANNED = "planned"
    RESOLVED = "resolved"


class DAGStatus(StrEnum):
    """Status of a submission to DAGMan."""

    READY = "ready"  # recorded; the token may or may not be in a schedd yet
    SUBMITTED = "submitted"
    RUNNING = "running"
    HALTED = "halted"  # held by an operator
    COMPLETED = "completed"
    PARTIAL = "partial"
    FAILED = "failed"
    REMOVED = "removed"
    STOPPED = "stopped"  # clean stop: what is done is kept, the rest may resume


class DAGKind(StrEnum):
    """Reason of a submission. Only rescues count against the rescue limit."""

    FIRST = "first"
    RESCUE = "rescue"
    RESUME = "resume"


class GroupStatus(StrEnum):
    """Status of a merge group; `collected` means that its outputs are in the database."""

    PLANNED = "planned"
    DONE = "done"
    COLLECTED = "collected"
    FAILED = "failed"


class FileState(StrEnum):
    """State of an input file in the ledger."""

    FRESH = "fresh"
    ASSIGNED = "assigned"
    PROCESSED = "processed"
    ATTEMPTED = "attempted"
    EXCLUDED = "excluded"


class RunnerState(StrEnum):
    """State of a runner, which is a job of a pull round."""

    RUNNING = "running"  # may be lent files
    RECORDED = "recorded"  # named its outputs and uploads them
    ENDED = "ended"


class RunnerOutcome(StrEnum):
    """Outcome of a runner that has ended."""

    PROCESSED = "processed"  # at least one of its files
    UNPROCESSED = "unprocessed"  # ended well and processed none of the files that it was lent
    LATE = "late"  # no file was left when it asked
    FAILED = "failed"  # its jobscript or payload failed, or its outputs could not be stored
    LOST = "lost"  # no heartbeat, or its job left the queue
    STOPPED = "stopped"  # by a clean stop, a drain or an operator


class RunnerEventKind(StrEnum):
    """Kind of an event of a runner and the files lent to it."""

    STARTED = "started"
    ALLOCATED = "allocated"  # files were lent
    RESET = "reset"  # files went back
    FAILED = "failed"  # files that went back were attempted as often as allowed
    CREATED = "created"  # outputs were recorded
    UPLOADED = "uploaded"  # outputs were confirmed
    PROCESSED = "processed"  # files are done
    STALLED = "stalled"  # its lease ended without a heartbeat
    ENDED = "ended"


class UploadState(StrEnum):
    """State of an output that a runner recorded."""

    RECORDED = "recorded"
    CONFIRMED = "confirmed"  # in an output block, or on scratch storage
    VOID = "void"  # its runner ended without a confirmation; may be on a storage
    REMOVED = "removed"  # void, and deleted from the storages


class ScheddStatus(StrEnum):
    """Whether new DAGs may go to a schedd. A draining one keeps its DAGs until its deadline."""

    ENABLED = "enabled"
    DRAINING = "draining"
    FENCED = "fenced"  # lost: an operator confirmed that nothing runs there


class QuarantineState(StrEnum):
    """Quarantine state of a copy of a file that was proved bad."""

    IN_FORCE = "in_force"
    LIFTED = "lifted"
    EXPIRED = "expired"


LIVE_DAG = frozenset({DAGStatus.READY, DAGStatus.SUBMITTED, DAGStatus.RUNNING, DAGStatus.HALTED})
IN_QUEUE = LIVE_DAG - {DAGStatus.READY}
FAILED_DAG = frozenset({DAGStatus.PARTIAL, DAGStatus.FAILED})
# Ended incomplete without a stop by WMS2.
ENDED_BY_ITSELF = FAILED_DAG | {DAGStatus.REMOVED}
LIVE_RUNNER = frozenset({RunnerState.RUNNING, RunnerState.RECORDED})
# Outcomes that count as failures of the round. Late and stopped runners are not failures.
FAILED_RUNNER = frozenset({RunnerOutcome.UNPROCESSED, RunnerOutcome.FAILED, RunnerOutcome.LOST})
UNFINISHED_FILE = frozenset({FileState.FRESH, FileState.ASSIGNED, FileState.ATTEMPTED})
