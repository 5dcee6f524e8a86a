"""Models of input: the ledger of input files, and secondary datasets, which jobs read besides.

Nothing of a secondary dataset is planned, so that there is one row for all workflows that name it.
"""

from __future__ import annotations

from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import F, Q

from dags_app.states import FileState
from wms2_project.fields import enum_field, name_field, one_of
from wms2_project.grammar import Name


class InputFile(models.Model):
    """An entry of the ledger: one input file of one workflow and its state."""

    id = models.BigAutoField(primary_key=True)
    workflow = models.ForeignKey("dags_app.Workflow", on_delete=models.PROTECT, related_name="input_files")
    lfn = name_field(Name.LFN)
    block_name = models.CharField(max_length=600, blank=True, default="")
    size_bytes = models.PositiveBigIntegerField()
    events = models.PositiveBigIntegerField()
    adler32 = models.CharField(max_length=8, blank=True, default="")
    lumis = models.JSONField(default=list)  # [[run, first lumi, last lumi], …]
    locations = ArrayField(models.CharField(max_length=100), default=list)  # storage names
    state = enum_field(FileState, default=FileState.FRESH)
    attempts = models.PositiveSmallIntegerField(default=0)
    # Ranges [[run, first, last], …] of lumis, or of events (run 0) where the workflow cuts by events:
    # the part of the file that the request selects, if not all, and the part that collected groups have read.
    # An empty `wanted` marks a file beyond the request's early stop: excluding it leaves no gap.
    wanted = models.JSONField(null=True, blank=True)
    done = models.JSONField(default=list, blank=True)
    # The round that holds the file, the first and last of its groups that read it, and whether they
    # read all that is left of it.
    round = models.ForeignKey(
        "dags_app.Round", null=True, blank=True, on_delete=models.PROTECT, related_name="files"
    )
    first_group = models.PositiveIntegerField(null=True, blank=True)
    last_group = models.PositiveIntegerField(null=True, blank=True)
    whole = models.BooleanField(default=True)
    # Pull mode: the storages that hold the file, as a set, and the runner that it is lent to
    place_set = models.ForeignKey(
        "dags_app.PlaceSet",
        null=True,
        blank=True,
        on_delete=models.PROTECT,
        related_name="files",
        db_index=False,
    )
    runner = models.ForeignKey(
        "dags_app.Runner",
        null=True,
        blank=True,
        on_delete=models.SET_NULL,
        related_name="files",
        db_index=False,
    )
    first_event = models.PositiveBigIntegerField(null=True, blank=True)  # of a counter
    excluded_reason = models.TextField(blank=True, default="")
    excluded_by = models.CharField(max_length=250, blank=True, default="")  # empty: excluded by WMS2 itself

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["workflow", "lfn"], name="input_file_once"),
            one_of(FileState, field="state", name="input_file_state"),
            models.CheckConstraint(
                condition=~Q(state__in=[FileState.ASSIGNED, FileState.PROCESSED])
                | Q(round__isnull=False, first_group__lte=F("last_group")),
                name="input_file_held_by_groups",
            ),
        ]
        indexes = [
            models.Index(fields=["workflow", "state"], name="input_file_by_state"),
            models.Index(fields=["round", "first_group"], name="input_file_by_group"),
            models.Index(
                fields=["workflow", "place_set", "attempts", "id"],
                name="input_file_to_lend",
                condition=Q(place_set__isnull=False, state__in=[FileState.FRESH, FileState.ATTEMPTED]),
            ),
            models.Index(fields=["runner"], name="input_file_lent", condition=Q(runner__isnull=False)),
        ]

    def __str__(self) -> str:
        return self.lfn


class FoldedInput(models.Model):
    """The ledger of an ended workflow as `/ledger` shows it. The rows of its files were removed."""

    workflow = models.OneToOneField(
        "dags_app.Workflow", primary_key=True, on_delete=models.PROTECT, related_name="folded_input"
    )
    ledger = models.JSONField()
    folded_at = models.DateTimeField(auto_now_add=True)

    def __str__(self) -> str:
        return f"input of {self.workflow_id}, folded at {self.folded_at:%F}"


class SecondaryDataset(models.Model):
    """A dataset that jobs read besides their input (pileup): its files and where they are, kept for days."""

    name = name_field(Name.DATASET, primary_key=True)
    lfns = models.JSONField(default=list)  # the files jobs are given, by name; bounded
    missing = models.JSONField(default=list, blank=True)  # those of them that no storage holds
    places = models.JSONField(default=list)  # [[storages, how many of the files are at exactly these], …]
    files = models.PositiveIntegerField(default=0)  # valid files in DBS, given to jobs or not
    resolved_at = models.DateTimeField()  # when DBS listed the files
    located_at = models.DateTimeField()  # when Rucio was asked for replicas

    def __str__(self) -> str:
        return self.name
