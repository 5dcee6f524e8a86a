"""Statuses of templates, announcements, chains, steps and datasets, each with its legal moves.

Pure data. `chains_app.transitions` is the only writer of these statuses and enforces the tables.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from wms2_project.tables import check_complete


class TemplateStatus(StrEnum):
    """Status of a template. Only actual templates start chains."""

    LOADED = "loaded"
    ACTUAL = "actual"
    ARCHIVED = "archived"


class AnnouncementStatus(StrEnum):
    """Status of an announced dataset."""

    PENDING = "pending"
    MATCHED = "matched"
    DEAD_LETTER = "dead_letter"
    DROPPED = "dropped"


class ChainStatus(StrEnum):
    """Status of a chain."""

    DEFINED = "defined"
    RUNNING = "running"
    HELD = "held"
    FINISHED = "finished"
    CANCELLED = "cancelled"


class StepStatus(StrEnum):
    """Status of one call of a step."""

    DEFINED = "defined"
    RUNNING = "running"
    HELD = "held"
    FINISHED = "finished"
    SKIPPED = "skipped"
    CANCELLED = "cancelled"


class DatasetRole(StrEnum):
    """Role of a dataset in its chain."""

    INPUT = "input"
    INTERMEDIATE = "intermediate"
    FINAL = "final"
    LOG = "log"


class DatasetStatus(StrEnum):
    """Whether a dataset of a chain exists."""

    PLANNED = "planned"
    WRITING = "writing"
    COMPLETE = "complete"
    REMOVING = "removing"
    REMOVED = "removed"


class CleanupStrategy(StrEnum):
    """Time at which the intermediate datasets of a chain are removed."""

    KEEP = "keep"
    SAFE = "safe"  # once every final dataset is complete
    GREEDY = "greedy"  # each one once its last consumer is done


class StepMode(StrEnum):
    """Mode of a step."""

    MAP = "map"
    MERGE = "merge"


class StepStart(StrEnum):
    """Condition under which a step starts."""

    COMPLETE = "complete"  # its input is complete
    FIRST_FILE = "first_file"  # its producer has started; it processes each file as it is confirmed


class Device(StrEnum):
    """Device that the jobs of a step need."""

    CPU = "cpu"
    GPU = "gpu"


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """Declaration of one status: its meaning, the statuses it leads to, its colour in the console."""

    why: str
    leads_to: tuple[str, ...] = ()
    colour: str = ""


T, A, C, P, D = TemplateStatus, AnnouncementStatus, ChainStatus, StepStatus, DatasetStatus

TEMPLATES: dict[TemplateStatus, Facts] = {
    T.LOADED: Facts(
        why="Stored and checked. It starts no chains and may be deleted.",
        leads_to=(T.ACTUAL, T.ARCHIVED),
        colour="info",
    ),
    T.ACTUAL: Facts(
        why="Every announced dataset that matches its mask starts a chain.",
        leads_to=(T.ARCHIVED,),
        colour="success",
    ),
    T.ARCHIVED: Facts(why="It starts no chains. Chains that began with it continue.", leads_to=(T.ACTUAL,)),
}

ANNOUNCEMENTS: dict[AnnouncementStatus, Facts] = {
    A.PENDING: Facts(
        why="Received. Templates are being matched.", leads_to=(A.MATCHED, A.DEAD_LETTER), colour="info"
    ),
    A.MATCHED: Facts(why="At least one chain was started.", colour="success"),
    A.DEAD_LETTER: Facts(
        why="No chain was started, for the reason shown. It can be replayed or dropped.",
        leads_to=(A.PENDING, A.DROPPED),
        colour="danger",
    ),
    A.DROPPED: Facts(why="An operator dropped the dead letter.", leads_to=(A.PENDING,)),
}

CHAINS: dict[ChainStatus, Facts] = {
    C.DEFINED: Facts(
        why="Its steps and datasets have names. The first step waits for its input.",
        leads_to=(C.RUNNING, C.HELD, C.FINISHED, C.CANCELLED),
        colour="info",
    ),
    C.RUNNING: Facts(
        why="At least one step has started.", leads_to=(C.HELD, C.FINISHED, C.CANCELLED), colour="primary"
    ),
    C.HELD: Facts(
        why="A step cannot go on by itself; see the evidence. Other steps continue.",
        leads_to=(C.RUNNING, C.FINISHED, C.CANCELLED),
        colour="danger",
    ),
    C.FINISHED: Facts(why="Every step is finished or skipped.", colour="success"),
    C.CANCELLED: Facts(why="An operator cancelled the chain. Its datasets are kept."),
}

STEPS: dict[StepStatus, Facts] = {
    P.DEFINED: Facts(
        why="Waits for its input, for approval or for a free place.",
        leads_to=(P.RUNNING, P.HELD, P.SKIPPED, P.CANCELLED),
        colour="info",
    ),
    P.RUNNING: Facts(
        why="Its request is being processed.",
        leads_to=(P.FINISHED, P.HELD, P.SKIPPED, P.CANCELLED),
        colour="primary",
    ),
    P.HELD: Facts(
        why="An operator must decide: the evidence names the cause.",
        leads_to=(P.DEFINED, P.RUNNING, P.FINISHED, P.SKIPPED, P.CANCELLED),
        colour="danger",
    ),
    P.FINISHED: Facts(why="Its request is completed and its output announced.", colour="success"),
    P.SKIPPED: Facts(why="Its condition is false, or an operator skipped it. Its outputs are null."),
    P.CANCELLED: Facts(why="The chain was cancelled."),
}

DATASETS: dict[DatasetStatus, Facts] = {
    D.PLANNED: Facts(why="Named, not created yet.", leads_to=(D.WRITING, D.COMPLETE), colour="info"),
    D.WRITING: Facts(why="Its step is running.", leads_to=(D.COMPLETE, D.PLANNED), colour="primary"),
    D.COMPLETE: Facts(why="Available to its consumers.", leads_to=(D.REMOVING,), colour="success"),
    D.REMOVING: Facts(
        why="No longer needed; its rules and files are being removed.",
        leads_to=(D.REMOVED, D.COMPLETE),
        colour="warning",
    ),
    D.REMOVED: Facts(why="Removed by the cleanup of its chain."),
}

for _name, _table, _enum in (
    ("TEMPLATES", TEMPLATES, T),
    ("ANNOUNCEMENTS", ANNOUNCEMENTS, A),
    ("CHAINS", CHAINS, C),
    ("STEPS", STEPS, P),
    ("DATASETS", DATASETS, D),
):
    check_complete(_name, _table, _enum)

ENDED = frozenset(status for status, one in CHAINS.items() if not one.leads_to)
OPEN = frozenset(ChainStatus) - ENDED
GOING = frozenset({D.REMOVING, D.REMOVED})
STEP_DONE = frozenset({P.FINISHED, P.SKIPPED})
STEP_ENDED = frozenset(status for status, one in STEPS.items() if not one.leads_to)
