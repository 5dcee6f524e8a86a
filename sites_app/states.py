"""Whether a site takes new work. Pure data."""

from __future__ import annotations

from enum import StrEnum


class SiteStatus(StrEnum):
    """What an operator, or CRIC, says of a site."""

    ENABLED = "enabled"
    DISABLED = "disabled"
    DRAINING = "draining"  # running jobs go on, no new landing
    MAINTENANCE = "maintenance"


class CricState(StrEnum):
    """What CRIC says of a site. Only an active one receives new work, whatever its status is."""

    ACTIVE = "active"
    INACTIVE = "inactive"  # listed, but not in operation
    ABSENT = "absent"  # listed once, and no longer


BY_CRIC = "system:cric"  # who sets what CRIC says
TIMED = (SiteStatus.DRAINING, SiteStatus.MAINTENANCE)  # over at `drain_until`, if that is set
CLOSED = (SiteStatus.DISABLED, SiteStatus.MAINTENANCE)  # until somebody enables the site
