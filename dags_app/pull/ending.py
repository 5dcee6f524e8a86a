"""The end of runners: their files go back, and outputs that they did not confirm are void."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any
from uuid import UUID

from django.conf import settings
from django.db import connection, transaction
from django.db.models import Q
from django.db.models.functions import Now

from dags_app.models import InputFile, Round, Runner, RunnerEvent, RunnerOutput
from dags_app.states import (
    FAILED_RUNNER,
    LIVE_RUNNER,
    FileState,
    RunnerEventKind,
    RunnerOutcome,
    RunnerState,
    UploadState,
)

_RETURN = """
    UPDATE dags_app_inputfile
       SET state = CASE WHEN attempts <= %(refund)s THEN %(fresh)s ELSE %(attempted)s END,
           attempts = attempts - %(refund)s, runner_id = NULL
     WHERE runner_id = %(runner)s AND state = %(assigned)s AND NOT (id = ANY(%(kept)s))
 RETURNING id, attempts"""
_REFUND = """
    UPDATE dags_app_inputfile
       SET attempts = attempts - 1,
           state = CASE WHEN state = %(attempted)s AND attempts = 1 THEN %(fresh)s ELSE state END
     WHERE id = ANY(%(files)s) AND attempts > 0"""
# The end of a SELECT of live runners whose last heartbeat is older than their lease, by the database clock
EXPIRED = """
    FROM dags_app_runner
   WHERE state = ANY(%(live_runners)s)
     AND heartbeat_at < statement_timestamp() - make_interval(secs => %(runner_lease)s)"""
EXPIRED_BATCH = 500


def return_files(*, runner: Runner, keep: Collection[int] = (), refund: bool = False) -> int:
    """Free the files that the runner holds, except those to keep; return how many.

    A lent file costs an attempt unless it is refunded. The caller has locked the runner.
    """
    values: dict[str, Any] = {
        "refund": int(refund),
        "fresh": FileState.FRESH,
        "attempted": FileState.ATTEMPTED,
        "assigned": FileState.ASSIGNED,
        "runner": runner.pk,
        "kept": list(keep),
    }
    with connection.cursor() as cursor:
        cursor.execute(_RETURN, values)
        rows = cursor.fetchall()
    worn = [key for key, attempts in rows if attempts >= settings.MAX_FILE_ATTEMPTS]
    log_event(runner, RunnerEventKind.RESET, [key for key, _ in rows])
    log_event(runner, RunnerEventKind.FAILED, worn)
    return len(rows)


def log_event(runner: Runner, kind: RunnerEventKind, file_ids: Iterable[int] = (), message: str = "") -> None:
    """Record an event, unless it concerns no file and has no message."""
    found = sorted(file_ids)
    if found or message:
        RunnerEvent.objects.create(
            workflow_id=runner.workflow_id, runner=runner, kind=kind, file_ids=found, message=message
        )


def end_runner(
    *,
    runner: Runner,
    outcome: RunnerOutcome,
    message: str = "",
    exit_code: int | None = None,
    refund: bool = False,
) -> bool:
    """End a runner: its files are free and its unconfirmed outputs void. Return False if it had ended."""
    with transaction.atomic():
        live = Runner.objects.filter(pk=runner.pk, state__in=sorted(LIVE_RUNNER))
        ended = live.update(
            state=RunnerState.ENDED,
            outcome=outcome,
            message=message[:1000],
            exit_code=exit_code,
            ended_at=Now(),
        )
        if not ended:
            return False
        return_files(runner=runner, refund=refund)
        void_outputs(runner=runner)
        kind = RunnerEventKind.STALLED if outcome == RunnerOutcome.LOST else RunnerEventKind.ENDED
        log_event(runner, kind, message=f"{outcome}: {message}" if message else str(outcome))
    return True


def refund_runner(*, runner: Runner, message: str) -> None:
    """Undo the attempts of a failed runner's files, and its failure. May be repeated."""
    with transaction.atomic():
        failed = Runner.objects.filter(pk=runner.pk, outcome__in=sorted(FAILED_RUNNER))
        if not failed.update(outcome=RunnerOutcome.STOPPED, message=message):
            return
        events = RunnerEvent.objects.filter(
            workflow_id=runner.workflow_id, runner=runner, kind=RunnerEventKind.RESET
        )
        returned = {key for keys in events.values_list("file_ids", flat=True) for key in keys}
        with connection.cursor() as cursor:
            cursor.execute(
                _REFUND,
                {
                    "files": sorted(returned),
                    "fresh": FileState.FRESH,
                    "attempted": FileState.ATTEMPTED,
                },
            )
        log_event(runner, RunnerEventKind.ENDED, message=f"attempts refunded: {message}")


def void_outputs(*, runner: Runner) -> None:
    """Make the unconfirmed outputs of the runner void; a later runner deletes what is on storage."""
    RunnerOutput.objects.filter(runner=runner, state=UploadState.RECORDED).update(state=UploadState.VOID)


def lease_values() -> dict[str, Any]:
    """Return the parameters of `EXPIRED`."""
    return {"live_runners": sorted(LIVE_RUNNER), "runner_lease": settings.RUNNER_LEASE_SEC}


def expired_runners() -> list[Runner]:
    """Return live runners without a heartbeat for the time of their lease."""
    sql = f"SELECT id {EXPIRED} ORDER BY heartbeat_at LIMIT %(limit)s"
    with connection.cursor() as cursor:
        cursor.execute(sql, lease_values() | {"limit": EXPIRED_BATCH})
        keys: list[UUID] = [row[0] for row in cursor.fetchall()]
    return list(Runner.objects.filter(pk__in=keys))


def expire_runners() -> list[Runner]:
    """End runners without a heartbeat for the time of their lease; return them.

    The lease is checked again under the lock: a heartbeat that arrives meanwhile keeps the runner.
    """
    ended = []
    for runner in expired_runners():
        with transaction.atomic():
            locked = Runner.objects.select_for_update().get(pk=runner.pk)
            if locked.heartbeat_at == runner.heartbeat_at and end_runner(
                runner=locked,
                outcome=RunnerOutcome.LOST,
                message=f"no heartbeat for {settings.RUNNER_LEASE_SEC} seconds",
            ):
                ended.append(locked)
    return ended


def end_round_runners(*, round_: Round, stopped: bool) -> int:
    """End the runners of a round that is over; after a clean stop their files keep their attempts."""
    outcome = RunnerOutcome.STOPPED if stopped else RunnerOutcome.LOST
    message = "the round was stopped" if stopped else "the round ended"
    live = list(round_.runners.filter(state__in=sorted(LIVE_RUNNER)))
    for runner in live:
        end_runner(runner=runner, outcome=outcome, message=message, refund=stopped)
    return len(live)


def held_files(*, runner: Runner) -> list[InputFile]:
    """Return the files that are lent to the runner."""
    return list(InputFile.objects.filter(Q(runner=runner, state=FileState.ASSIGNED)).order_by("id"))
