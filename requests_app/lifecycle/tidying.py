"""What must happen now and then and concerns no single request."""

from __future__ import annotations

from datetime import datetime

from requests_app.lifecycle.finishing import watch_outputs
from requests_app.notifications import send_alerts
from sites_app.bans import expire_bans


def tidy_up(*, now: datetime) -> None:
    """End bans whose time is over, see which outputs keep failing, and send alerts on."""
    expire_bans(now=now)
    watch_outputs(now=now)
    send_alerts(now=now)
