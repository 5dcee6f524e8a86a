"""Runners, places of files, recorded outputs, and the counts of former runners."""

from __future__ import annotations

import uuid

from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import Q
from django.db.models.functions import Now

from dags_app.states import LIVE_RUNNER, RunnerEventKind, RunnerOutcome, RunnerState, UploadState
from wms2_project.fields import enum_field, name_field, one_of
from wms2_project.grammar import Name


class PlaceSet(models.Model):
    """A set of storages at which files of a pull workflow are. Files share few sets."""

    id = models.BigAutoField(primary_key=True)
    workflow = models.ForeignKey("dags_app.Workflow", on_delete=models.PROTECT, related_name="place_sets")
    storages = ArrayField(models.CharField(max_length=100), default=list)  # sorted; [ANYWHERE]: counters

    class Meta:
        constraints = [models.UniqueConstraint(fields=["workflow", "storages"], name="place_set_once")]

    def __str__(self) -> str:
        return ", ".join(self.storages) or "nowhere"


class Runner(models.Model):
    """A job of a pull round: files are lent to it until it ends or its lease expires."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    workflow = models.ForeignKey("dags_app.Workflow", on_delete=models.PROTECT, related_name="runners")
    round = models.ForeignKey("dags_app.Round", on_delete=models.PROTECT, related_name="runners")
    group = models.ForeignKey("dags_app.MergeGroup", on_delete=models.PROTECT, related_name="runners")
    node = models.CharField(max_length=64)
    attempt = models.PositiveIntegerField()
    instance = models.UUIDField(unique=True)  # made by the job at each start: a restarted job is a new runner
    htcondor_id = models.CharField(max_length=100)
    site = name_field(Name.SITE)
    slot = models.CharField(max_length=200, blank=True, default="")
    seconds_left = models.PositiveIntegerField()  # of its slot, when it started
    state = enum_field(RunnerState, default=RunnerState.RUNNING)
    outcome = enum_field(RunnerOutcome, null=True, blank=True)
    files_lent = models.PositiveIntegerField(default=0)
    files_processed = models.PositiveIntegerField(default=0)
    exit_code = models.IntegerField(null=True, blank=True)
    message = models.TextField(blank=True, default="")
    # Digest of the body of each call: a repeated call gets the same answer, another body is refused
    calls = models.JSONField(default=dict, blank=True)
    last_call = models.UUIDField(null=True, blank=True)  # of allocate: its id, count and the files lent
    last_count = models.PositiveSmallIntegerField(default=0)
    last_lent = ArrayField(models.BigIntegerField(), default=list, blank=True)
    started_at = models.DateTimeField(db_default=Now())
    heartbeat_at = models.DateTimeField(db_default=Now())
    ended_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        constraints = [
            one_of(RunnerState, field="state", name="runner_state"),
            one_of(RunnerOutcome, field="outcome", name="runner_outcome"),
            models.CheckConstraint(
                condition=Q(state=RunnerState.ENDED, outcome__isnull=False, ended_at__isnull=False)
                | (~Q(state=RunnerState.ENDED) & Q(outcome__isnull=True, ended_at__isnull=True)),
                name="runner_ended_with_outcome",
            ),
            models.UniqueConstraint(
                fields=["round", "node"],
                condition=Q(state__in=sorted(LIVE_RUNNER)),
                name="one_live_runner_per_node",
            ),
        ]
        indexes = [
            # Without heartbeat_at, so that a heartbeat changes no index
            models.Index(fields=["workflow"], name="runner_live", condition=Q(state__in=sorted(LIVE_RUNNER))),
            models.Index(fields=["round", "outcome"], name="runner_by_outcome"),
            models.Index(fields=["workflow", "-started_at", "-id"], name="runner_newest"),
        ]

    def __str__(self) -> str:
        return f"{self.node} at {self.site}"


class RunnerOutput(models.Model):
    """An output file that a runner recorded, uploads and confirms."""

    id = models.BigAutoField(primary_key=True)
    runner = models.ForeignKey(Runner, on_delete=models.CASCADE, related_name="outputs")
    name = models.CharField(max_length=200)
    pattern = models.PositiveSmallIntegerField()  # number of the output pattern, from 1
    dataset_name = name_field(Name.DATASET, blank=True, default="")  # empty: scratch, in no catalogue
    lfn = name_field(Name.LFN, unique=True)
    size_bytes = models.PositiveBigIntegerField()
    adler32 = models.CharField(max_length=8)
    events = models.PositiveBigIntegerField(null=True, blank=True)  # null: not known
    lumis = models.JSONField(default=list, blank=True)  # [[run, first lumi, last lumi], …]
    sites = ArrayField(name_field(Name.SITE), default=list)  # whose storage it may be uploaded to, best first
    site = models.CharField(max_length=100, blank=True, default="")  # where it was uploaded
    state = enum_field(UploadState, default=UploadState.RECORDED)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["runner", "name"], name="runner_output_once"),
            one_of(UploadState, field="state", name="runner_output_state"),
        ]

    def __str__(self) -> str:
        return self.name


class RunnerEvent(models.Model):
    """Event of a runner and its files. Append-only, and deleted with the runner."""

    id = models.BigAutoField(primary_key=True)
    # No constraints and one index: lending a file costs twice as much with all that a foreign key brings.
    workflow = models.ForeignKey(
        "dags_app.Workflow",
        on_delete=models.PROTECT,
        related_name="runner_events",
        db_constraint=False,
        db_index=False,
    )
    runner = models.ForeignKey(
        Runner, on_delete=models.CASCADE, related_name="events", db_constraint=False, db_index=False
    )
    kind = enum_field(RunnerEventKind)
    file_ids = ArrayField(models.BigIntegerField(), default=list, blank=True)
    message = models.TextField(blank=True, default="")
    at = models.DateTimeField(db_default=Now())

    class Meta:
        constraints = [one_of(RunnerEventKind, field="kind", name="runner_event_kind")]
        indexes = [models.Index(fields=["workflow", "-id"], name="runner_event_newest")]

    def __str__(self) -> str:
        return f"{self.kind} {len(self.file_ids)} files"


class RunnerCount(models.Model):
    """Former runners of a round, counted by site and outcome; their rows were deleted."""

    id = models.BigAutoField(primary_key=True)
    round = models.ForeignKey("dags_app.Round", on_delete=models.PROTECT, related_name="runner_counts")
    site = name_field(Name.SITE)
    outcome = enum_field(RunnerOutcome)
    runners = models.PositiveIntegerField()
    files_processed = models.PositiveBigIntegerField()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["round", "site", "outcome"], name="runner_count_once"),
            one_of(RunnerOutcome, field="outcome", name="runner_count_outcome"),
        ]

    def __str__(self) -> str:
        return f"{self.runners} {self.outcome} at {self.site}"
