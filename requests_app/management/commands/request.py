"""`manage.py request ACTION NAME --reason …`: the operator's actions, from the submit host's shell."""

from __future__ import annotations

from argparse import ArgumentParser
from collections.abc import Callable
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.utils import timezone

from requests_app.models import Request
from requests_app.services import editing, failing, releasing, restarting, steering
from requests_app.states import CleanupPolicy
from wms2_project.errors import Wms2Error
from wms2_project.shell import refusal, shell_actor

Action = Callable[[Request, str, dict[str, Any]], str]


def _stop(request: Request, actor: str, options: dict[str, Any]) -> str:
    row = steering.stop_request(request=request, actor=actor, reason=options["reason"], hold=options["hold"])
    return f"{row} is {row.status}"


def _release(request: Request, actor: str, options: dict[str, Any]) -> str:
    row = releasing.release_request(
        request=request, actor=actor, reason=options["reason"], now=timezone.now()
    )
    return f"{row} is {row.status}"


def _fail(request: Request, actor: str, options: dict[str, Any]) -> str:
    row = failing.fail_request(request=request, actor=actor, reason=options["reason"], now=timezone.now())
    return f"{row} is {row.status}; its outputs are being invalidated"


def _invalidate(request: Request, actor: str, options: dict[str, Any]) -> str:
    row = failing.invalidate_request(
        request=request, actor=actor, reason=options["reason"], now=timezone.now()
    )
    return f"{row} stays {row.status}; its outputs are being invalidated"


def _abort(request: Request, actor: str, options: dict[str, Any]) -> str:
    row = steering.abort_request(request=request, actor=actor, reason=options["reason"])
    return f"{row} is {row.status}"


def _restart(request: Request, actor: str, options: dict[str, Any]) -> str:
    policy = CleanupPolicy(options["cleanup_policy"]) if options["cleanup_policy"] else None
    made = restarting.restart_request(
        request=request, actor=actor, reason=options["reason"], cleanup_policy=policy
    )
    return f"{request} is {request.status}; {made} replaces it"


def _change(request: Request, actor: str, options: dict[str, Any]) -> str:
    lists = {"site_whitelist": options["sites"], "site_blacklist": options["not_at"]}
    given = {"priority": options["priority"], "memory_mb": options["memory_mb"]} | lists
    if options["throttles"]:
        given["category_throttles"] = editing.parse_throttles(options["throttles"])
    changes = {name: value for name, value in given.items() if value is not None}
    effects = editing.preview_change(request=request, changes=changes)
    if not options["dry_run"]:
        editing.change_request(request=request, actor=actor, reason=options["reason"], changes=changes)
    parts = {"now": effects.now, "next round": effects.next_round, "never": effects.never}
    return "\n".join(f"{when}: {line}" for when, lines in parts.items() for line in lines)


ACTIONS: dict[str, Action] = {
    "stop": _stop,
    "release": _release,
    "fail": _fail,
    "invalidate": _invalidate,
    "abort": _abort,
    "restart": _restart,
    "change": _change,
}


CHANGES = ("priority", "memory_mb", "sites", "not_at", "throttles", "dry_run")
OWNERS = {"hold": "stop", "cleanup_policy": "restart"} | dict.fromkeys(CHANGES, "change")


class Command(BaseCommand):
    help = "Stop, release, fail, invalidate, abort, restart or change a request, audited as done by you."

    def add_arguments(self, parser: ArgumentParser) -> None:
        """The action, the request, the reason; the rest belongs to some actions only."""
        parser.add_argument("action", choices=sorted(ACTIONS))
        parser.add_argument("name")
        parser.add_argument("--reason", required=True)
        parser.add_argument("--hold", action="store_true", help="stop: stay held afterwards")
        parser.add_argument("--cleanup-policy", choices=[policy.value for policy in CleanupPolicy])
        parser.add_argument("--priority", type=int, help="change: the new priority")
        parser.add_argument("--memory-mb", type=int, help="change: memory of jobs planned from now on")
        parser.add_argument("--sites", nargs="*", help="change: the only sites to use")
        parser.add_argument("--not-at", nargs="*", help="change: sites not to use")
        parser.add_argument("--throttles", nargs="*", help="change: most jobs at a time, as Processing=50")
        parser.add_argument("--dry-run", action="store_true", help="change: only say what it would reach")

    def handle(self, *args: Any, **options: Any) -> None:
        """Find the request, call one service, say what came of it."""
        _refuse_strays(options)
        request = Request.objects.select_related("workflow").filter(request_name=options["name"]).first()
        if request is None:
            raise CommandError(f"There is no request named {options['name']}")
        try:
            told = ACTIONS[options["action"]](request, shell_actor(), options)
        except Wms2Error as error:
            raise refusal(error) from error
        self.stdout.write(told)


def _refuse_strays(options: dict[str, Any]) -> None:
    """An option that its action does not read would be dropped in silence."""
    action = options["action"]
    given = [name for name in OWNERS if options[name] is not None and options[name] is not False]
    for name in given:
        if OWNERS[name] != action:
            raise CommandError(f"--{name.replace('_', '-')} belongs to {OWNERS[name]}, not to {action}")
