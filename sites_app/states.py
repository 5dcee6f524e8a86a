"""Site statuses. Pure data."""

from __future__ import annotations

from enum import StrEnum


class SiteStatus(StrEnum):
    """Status of a site, set by an operator or CRIC."""

    ENABLED = "enabled"
    DISABLED = "disabled"
    DRAINING = "draining"  # running jobs continue, no new landings
    MAINTENANCE = "maintenance"


class CricState(StrEnum):
    """State of a site in CRIC. Only active sites receive new work, regardless of their status."""

    ACTIVE = "active"
    INACTIVE = "inactive"  # listed, but not in operation
    ABSENT = "absent"  # was listed earlier


BY_CRIC = "system:cric"  # actor of changes that follow CRIC
TIMED = (SiteStatus.DRAINING, SiteStatus.MAINTENANCE)  # over at `drain_until`, if that is set
CLOSED = (SiteStatus.DISABLED, SiteStatus.MAINTENANCE)  # until the site is enabled
