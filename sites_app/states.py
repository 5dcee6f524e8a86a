"""Whether a site takes new work. Pure data."""

from __future__ import annotations

from enum import StrEnum


class SiteStatus(StrEnum):
    """What an operator, or CRIC, says of a site."""

    ENABLED = "enabled"
    DISABLED = "disabled"
    DRAINING = "draining"  # running jobs go on, no new landing
    MAINTENANCE = "maintenance"


CLOSED = (SiteStatus.DISABLED, SiteStatus.MAINTENANCE)  # until somebody enables the site
