"""Folding of former runners into counts, some days after their round."""

from __future__ import annotations

from datetime import datetime, timedelta

from django.conf import settings
from django.db import transaction
from django.db.models import Count, Sum

from dags_app.models import Round, RunnerCount, RunnerEvent, RunnerOutput
from dags_app.states import RoundKind, RoundStatus, UploadState

MAX_ROUNDS = 100  # of one call


def fold_runners(*, now: datetime) -> int:
    """Replace the runners of old rounds by counts per site and outcome; return how many were folded.

    Rounds with outputs that may still be on a storage keep theirs, so that these can be listed and removed.
    """
    before = now - timedelta(days=settings.RUNNER_KEEP_DAYS)
    unsettled = RunnerOutput.objects.filter(state__in=[UploadState.RECORDED, UploadState.VOID])
    old = Round.objects.filter(
        kind=RoundKind.PULL, status=RoundStatus.RESOLVED, resolved_at__lt=before, runners__isnull=False
    ).exclude(pk__in=unsettled.values("runner__round"))
    return sum(_fold(round_) for round_ in old.distinct().order_by("resolved_at")[:MAX_ROUNDS])


def _fold(round_: Round) -> int:
    with transaction.atomic():
        rows = round_.runners.order_by().values_list("site", "outcome")
        RunnerCount.objects.bulk_create(
            RunnerCount(round=round_, site=site, outcome=outcome, runners=count, files_processed=files)
            for site, outcome, count, files in rows.annotate(
                count=Count("id"), processed=Sum("files_processed")
            )
        )
        keys = list(round_.runners.values_list("pk", flat=True))
        round_.files.filter(runner__in=keys).update(runner=None)
        RunnerEvent.objects.filter(workflow_id=round_.workflow_id, runner__in=keys).delete()
        RunnerOutput.objects.filter(runner__in=keys).delete()
        return round_.runners.all().delete()[0]
