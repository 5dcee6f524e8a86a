"""`manage.py request ACTION NAME --reason …`: the operator's actions, from the submit host's shell."""

from __future__ import annotations

import json
from argparse import ArgumentParser
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.utils import timezone
from rest_framework.exceptions import ValidationError

from requests_app.api.inputs import ReleaseChanges, modifications_of
from requests_app.models import Request
from requests_app.services import drafting, editing, failing, owning, releasing, restarting, steering
from requests_app.states import CleanupPolicy
from wms2_project.api.errors import field_messages
from wms2_project.api.views import parsed
from wms2_project.errors import InvalidInput, Wms2Error
from wms2_project.shell import refusal, shell_actor

Action = Callable[[Request, str, dict[str, Any]], str]


def _submit(request: Request, actor: str, options: dict[str, Any]) -> str:
    row = drafting.submit_draft(request=request, actor=actor, reason=options["reason"])
    return f"{row} is {row.status}"


def _stop(request: Request, actor: str, options: dict[str, Any]) -> str:
    row = steering.stop_request(request=request, actor=actor, reason=options["reason"], hold=options["hold"])
    return f"{row} is {row.status}"


def _release(request: Request, actor: str, options: dict[str, Any]) -> str:
    given = {name: options[name] for name in (*RELEASE, "memory_mb") if options[name] is not None}
    changes = modifications_of(parsed(ReleaseChanges, given))
    if options["dry_run"]:
        return _told(releasing.preview_release(request=request, modifications=changes, now=timezone.now()))
    row = releasing.release_request(
        request=request, actor=actor, reason=options["reason"], now=timezone.now(), modifications=changes
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


def _share(request: Request, actor: str, options: dict[str, Any]) -> str:
    row = owning.share_outputs(
        request=request, actor=actor, reason=options["reason"], datasets=options["datasets"] or (),
        now=timezone.now(),
    )  # fmt: skip
    return f"{row} is {row.status} and may share its output datasets"


def _abort(request: Request, actor: str, options: dict[str, Any]) -> str:
    row = steering.abort_request(request=request, actor=actor, reason=options["reason"])
    return f"{row} is {row.status}"


def _restart(request: Request, actor: str, options: dict[str, Any]) -> str:
    policy = CleanupPolicy(options["cleanup_policy"]) if options["cleanup_policy"] else None
    if options["dry_run"]:
        return _told(restarting.preview_restart(request=request, actor=actor, cleanup_policy=policy))
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
    if options["forget_memory"]:
        changes["memory_mb"] = None
    effects = editing.preview_change(request=request, changes=changes, actor=actor)
    if not options["dry_run"]:
        editing.change_request(request=request, actor=actor, reason=options["reason"], changes=changes)
    parts = {"now": effects.now, "next round": effects.next_round, "never": effects.never}
    return "\n".join(f"{when}: {line}" for when, lines in parts.items() for line in lines)


def _told(preview: Any) -> str:
    """A preview, one member per line."""
    return "\n".join(f"{name}: {json.dumps(value)}" for name, value in asdict(preview).items())


ACTIONS: dict[str, Action] = {
    "submit": _submit,
    "stop": _stop,
    "release": _release,
    "fail": _fail,
    "invalidate": _invalidate,
    "share": _share,
    "abort": _abort,
    "restart": _restart,
    "change": _change,
}


CHANGES = ("priority", "sites", "not_at", "throttles", "forget_memory")
RELEASE = ("site_bans", "excluded_files", "time_per_event_sec", "retry_count", "error_hold_threshold")
OWNERS: dict[str, tuple[str, ...]] = {
    "hold": ("stop",),
    "datasets": ("share",),
    "cleanup_policy": ("restart",),
    "memory_mb": ("change", "release"),
    "dry_run": ("change", "release", "restart"),
    **dict.fromkeys(CHANGES, ("change",)),
    **dict.fromkeys(RELEASE, ("release",)),
}


class Command(BaseCommand):
    help = "Submit, stop, release, fail, invalidate, share, abort, restart or change a request; audited."

    def add_arguments(self, parser: ArgumentParser) -> None:
        """The action, the request, the reason; the rest belongs to some actions only."""
        parser.add_argument("action", choices=sorted(ACTIONS))
        parser.add_argument("name")
        parser.add_argument("--reason", required=True)
        parser.add_argument("--hold", action="store_true", help="stop: stay held afterwards")
        parser.add_argument("--datasets", nargs="+", help="share: which outputs; all of them if left out")
        parser.add_argument("--cleanup-policy", choices=[policy.value for policy in CleanupPolicy])
        parser.add_argument("--priority", type=int, help="change: the new priority")
        parser.add_argument(
            "--memory-mb", type=int, help="change, release: memory per job (MB), whatever was measured"
        )
        parser.add_argument(
            "--forget-memory", action="store_true", help="change: go by measured memory again"
        )
        parser.add_argument("--sites", nargs="*", help="change: the only sites to use")
        parser.add_argument("--not-at", nargs="*", help="change: sites not to use")
        parser.add_argument("--throttles", nargs="*", help="change: most jobs at a time, as Processing=50")
        parser.add_argument("--site-bans", nargs="+", help="release: sites to ban for this request")
        parser.add_argument("--excluded-files", nargs="+", help="release: input files to go on without")
        parser.add_argument("--time-per-event-sec", type=float, help="release: what one event takes")
        parser.add_argument("--retry-count", type=int, help="release: retries per job")
        parser.add_argument(
            "--error-hold-threshold", type=float, help="release: hold again above this share of failed groups"
        )
        parser.add_argument(
            "--dry-run", action="store_true", help="change, release, restart: only say what would happen"
        )

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
        except ValidationError as error:
            wrong = InvalidInput("nothing was changed", fields=field_messages(error.detail))
            raise refusal(wrong) from error
        self.stdout.write(told)


def _refuse_strays(options: dict[str, Any]) -> None:
    """An option that its action does not read would be dropped in silence."""
    action = options["action"]
    given = [name for name in OWNERS if options[name] is not None and options[name] is not False]
    for name in given:
        if action not in OWNERS[name]:
            owners = " and ".join(OWNERS[name])
            raise CommandError(f"--{name.replace('_', '-')} belongs to {owners}, not to {action}")
