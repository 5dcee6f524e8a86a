"""`manage.py quota show` and `manage.py quota set SCOPE NAME --reason …`."""

from __future__ import annotations

from typing import Any

from django.utils import timezone

from requests_app.operations import QUOTA_OPERATIONS
from requests_app.services.quotas import LIMITS, QuotaState, known_shares, quota_of, state_of, states_of
from wms2_project.operations.command import KEY, NULL, OperationCommand


class Command(OperationCommand):
    help = "Show and set the quotas of requestors and groups. The name * is the default."
    operations = QUOTA_OPERATIONS
    others = ("show",)

    def handle(self, *args: Any, **options: Any) -> None:
        """Set the quota, if requested, and print limits and usage. `default` means the same as `null`."""
        now = timezone.now()
        if options["operation"] == "show":
            states = states_of(known_shares(), now=now)
        else:
            options |= {name: NULL for name in LIMITS if options[name] == "default"}
            super().handle(*args, **options)
            states = [state_of(quota_of(options[f"{KEY}scope"], options[f"{KEY}name"]), now=now)]
        for state in states:
            self.stdout.write(_line(state))


def _line(state: QuotaState) -> str:
    parts = [
        f"{name} {state.usage[name]:,}/{state.limits[name]:,}" if state.usage else f"{name} {limit:,}"
        for name, limit in state.limits.items()
    ]
    return f"{state.scope} {state.name}: {', '.join(parts)}"
