"""`manage.py quota show|set`: quotas of requestors and groups."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.utils import timezone

from requests_app.services.quotas import LIMITS, QuotaState, change_quota, known_shares, states_of
from requests_app.states import QuotaScope
from wms2_project.command_base import refusal, shell_actor
from wms2_project.errors import Wms2Error


class Command(BaseCommand):
    help = "Show and set the quotas of requestors and groups. The name * is the default."

    def add_arguments(self, parser: ArgumentParser) -> None:
        actions = parser.add_subparsers(dest="action", required=True)
        actions.add_parser(
            "show", help="show limits and usage of all requestors and groups with a quota or open requests"
        )
        change = actions.add_parser("set", help="change limits; limits that are not given are unchanged")
        change.add_argument("scope", choices=[scope.value for scope in QuotaScope])
        change.add_argument("name", help="account, group, or * for the default")
        for name, limit in LIMITS.items():
            change.add_argument(
                f"--{name.replace('_', '-')}", help=f"{limit.help} `default` resets it to the quota of *."
            )
        change.add_argument("--reason", required=True)

    def handle(self, *args: Any, **options: Any) -> None:
        now = timezone.now()
        if options["action"] == "show":
            shares = known_shares()
        else:
            changes = {name: _number(name, options[name]) for name in LIMITS if options[name] is not None}
            shares = [(QuotaScope(options["scope"]), options["name"])]
            try:
                change_quota(
                    scope=options["scope"], name=options["name"], changes=changes, actor=shell_actor(),
                    reason=options["reason"],
                )  # fmt: skip
            except Wms2Error as error:
                raise refusal(error) from error
        for state in states_of(shares, now=now):
            self.stdout.write(_line(state))


def _number(name: str, text: str) -> int | None:
    if text == "default":
        return None
    if not (text.isascii() and text.isdigit()):
        raise CommandError(f"--{name.replace('_', '-')} must be a whole number or `default`, not {text!r}")
    return int(text)


def _line(state: QuotaState) -> str:
    parts = [
        f"{name} {state.usage[name]:,}/{state.limits[name]:,}" if state.usage else f"{name} {limit:,}"
        for name, limit in state.limits.items()
    ]
    return f"{state.scope} {state.name}: {', '.join(parts)}"
