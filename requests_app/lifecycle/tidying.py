"""What must happen now and then and concerns no single request."""

from __future__ import annotations

from datetime import datetime

from requests_app.lifecycle.finishing import watch_outputs
from requests_app.notifications import send_alerts
from requests_app.services.restarting import retire_replaced_outputs
from sites_app.bans import expire_bans
from wms2_project.locks import try_lock


def tidy_up(*, now: datetime) -> None:
    """End bans whose time is over, see which outputs keep failing, send alerts on, retire replaced outputs.

    One at a time: what takes long must not take the sweep's workers one after the other.
    """
    with try_lock("tidy up") as held:
        if not held:
            return
        expire_bans(now=now)
        watch_outputs(now=now)
        send_alerts(now=now)
        retire_replaced_outputs(now=now)
