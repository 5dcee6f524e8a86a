"""Startup checks of the intake's settings. Imported when the application starts."""

from __future__ import annotations

import re
from typing import Any

from django.conf import settings
from django.core.checks import CheckMessage, Error, register

from wms2_project.checks import STARTUP

SCHEMES = {
    "INTAKE_AMQP_URL": ("amqp://", "amqps://", "redis://", "rediss://"),
    "INTAKE_STOMP_URL": ("stomp://", "stomp+ssl://"),
}
POLLED = re.compile(r"/[A-Za-z0-9_.*/-]{1,499}")
QUEUES = {"INTAKE_AMQP_URL": "INTAKE_AMQP_QUEUE", "INTAKE_STOMP_URL": "INTAKE_STOMP_DESTINATION"}


@register(STARTUP)
def check_intake(app_configs: Any, **kwargs: Any) -> list[CheckMessage]:
    """Require a queue for each broker, and addresses with a supported scheme."""
    found: list[CheckMessage] = []
    for name, queue in QUEUES.items():
        url = getattr(settings, name)
        if url and not url.startswith(SCHEMES[name]):
            hint = f"Use an address that begins with {' or '.join(SCHEMES[name])}."
            found.append(Error(f"WMS2_{name} is not an address of a broker.", hint=hint, id="wms2.E040"))
        if url and not getattr(settings, queue):
            hint = "It has no default, so that the queue of another installation is not emptied by mistake."
            found.append(Error(f"WMS2_{queue} is not set.", hint=hint, id="wms2.E041"))
    for name in settings.INTAKE_POLL_NAMES:
        if not POLLED.fullmatch(name):
            hint = "Use dataset names in which * stands for any text, separated by commas: /*/Run2026*/RAW."
            found.append(Error(f"WMS2_INTAKE_POLL_NAMES has {name!r:.200}.", hint=hint, id="wms2.E042"))
    return found
