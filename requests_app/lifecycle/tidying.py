"""What must happen now and then and concerns no single request."""

from __future__ import annotations

from datetime import datetime

from requests_app.notifications import send_alerts
from sites_app.bans import expire_bans


def tidy_up(*, now: datetime) -> None:
    """End bans whose time is over, and send alerts on."""
    expire_bans(now=now)
    send_alerts(now=now)
