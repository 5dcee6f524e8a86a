"""Templates, announced datasets, and the chains they start: steps, datasets and events."""

from __future__ import annotations

from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import Q

from chains_app.states import (
    GOING,
    OPEN,
    AnnouncementStatus,
    ChainStatus,
    CleanupStrategy,
    DatasetRole,
    DatasetStatus,
    StepStatus,
    TemplateStatus,
)
from requests_app.models import CallbackRow, Request
from requests_app.states import CallbackStatus
from wms2_project.fields import enum_field, name_field, one_of
from wms2_project.grammar import Name
from wms2_project.leases import Leased

MAX_UID = 500
MAX_TEMPLATE_NAME = 60


class Template(models.Model):
    """One version of a template: a CWL workflow and the datasets it is for."""

    id = models.BigAutoField(primary_key=True)
    name = models.CharField(max_length=MAX_TEMPLATE_NAME)
    version = models.PositiveIntegerField()
    status = enum_field(TemplateStatus, default=TemplateStatus.LOADED)
    status_since = models.DateTimeField()
    description = models.TextField(blank=True, default="")
    mask = models.CharField(max_length=500, blank=True, default="")  # RE2; empty: started by name only
    cleanup = enum_field(CleanupStrategy, default=CleanupStrategy.KEEP)
    keep_logs = models.BooleanField(default=False)
    delete_input = models.BooleanField(default=False)
    document = models.TextField()  # the CWL text as it was sent
    workflow = models.JSONField()  # its normalised steps, see chains_app.cwl.types
    created_by = models.CharField(max_length=250)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ["name", "-version"]
        constraints = [
            models.UniqueConstraint(fields=["name", "version"], name="template_version_once"),
            models.UniqueConstraint(
                fields=["name"], condition=Q(status=TemplateStatus.ACTUAL), name="one_actual_template_version"
            ),
            one_of(TemplateStatus, field="status", name="template_status"),
            one_of(CleanupStrategy, field="cleanup", name="template_cleanup"),
        ]

    def __str__(self) -> str:
        return f"{self.name} v{self.version}"


class Announcement(models.Model):
    """An announced dataset, or a call of a template by name. One row per uid."""

    id = models.BigAutoField(primary_key=True)
    uid = models.CharField(max_length=MAX_UID, unique=True)
    dataset_name = models.CharField(max_length=500, blank=True, default="", db_index=True)
    template_name = models.CharField(max_length=200, blank=True, default="")  # empty: by mask
    parameters = models.JSONField(default=dict)
    priority = models.PositiveIntegerField(null=True, blank=True)
    correlation_id = models.CharField(max_length=200, blank=True, default="")
    callback_url = models.URLField(max_length=500, blank=True, default="")
    actor = models.CharField(max_length=250)
    status = enum_field(AnnouncementStatus, default=AnnouncementStatus.PENDING)
    reason = models.TextField(blank=True, default="")  # of a dead letter
    body = models.TextField(blank=True, default="")  # of a message that could not be read, shortened
    received_at = models.DateTimeField(auto_now_add=True)
    decided_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        constraints = [
            one_of(AnnouncementStatus, field="status", name="announcement_status"),
            models.CheckConstraint(
                condition=~Q(status=AnnouncementStatus.DEAD_LETTER) | ~Q(reason=""),
                name="dead_letter_has_a_reason",
            ),
        ]
        indexes = [
            models.Index(fields=["-received_at", "-id"], name="announcement_newest"),
            models.Index(fields=["status", "-received_at", "-id"], name="announcement_by_status"),
            models.Index(
                fields=["id"], name="announcement_pending", condition=Q(status=AnnouncementStatus.PENDING)
            ),
        ]

    def __str__(self) -> str:
        return self.dataset_name or self.template_name or self.uid


class Chain(Leased):
    """One run of a template on one announced dataset."""

    id = models.BigAutoField(primary_key=True)
    template = models.ForeignKey(Template, on_delete=models.PROTECT, related_name="chains")
    announcement = models.ForeignKey(Announcement, on_delete=models.PROTECT, related_name="chains")
    inputs = models.JSONField(default=dict)  # values of the workflow's inputs
    status = enum_field(ChainStatus, default=ChainStatus.DEFINED)
    status_since = models.DateTimeField()
    wait_reason = models.TextField(blank=True, default="")
    hold_evidence = models.JSONField(null=True, blank=True)
    version = models.PositiveIntegerField(default=0)
    created_at = models.DateTimeField(auto_now_add=True)
    updated_at = models.DateTimeField(auto_now=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["announcement", "template"], name="one_chain_per_announcement"),
            one_of(ChainStatus, field="status", name="chain_status"),
        ]
        indexes = [
            models.Index(fields=["next_check_at"], name="chain_due", condition=Q(status__in=sorted(OPEN))),
            models.Index(fields=["-created_at", "-id"], name="chain_newest"),
            models.Index(fields=["status", "-created_at", "-id"], name="chain_by_status"),
        ]

    def __str__(self) -> str:
        return f"chain {self.pk}"


class ChainStep(models.Model):
    """One call of a step. A started call has a request."""

    id = models.BigAutoField(primary_key=True)
    chain = models.ForeignKey(Chain, on_delete=models.PROTECT, related_name="steps")
    step = models.CharField(max_length=300)  # names of the steps from the outermost workflow, joined by /
    index = ArrayField(models.PositiveIntegerField(), default=list)  # position in the scatters around it
    tries = models.PositiveSmallIntegerField(default=1)  # requests made for this call
    status = enum_field(StepStatus, default=StepStatus.DEFINED)
    status_since = models.DateTimeField()
    wait_reason = models.TextField(blank=True, default="")
    hold_evidence = models.JSONField(null=True, blank=True)
    request = models.OneToOneField(Request, null=True, blank=True, on_delete=models.PROTECT, related_name="+")
    request_name = name_field(Name.REQUEST, unique=True)
    inputs = models.JSONField(null=True, blank=True)  # values of its ports, once they are known
    document = models.JSONField(null=True, blank=True)  # of its request
    outputs = models.JSONField(null=True, blank=True)  # values of its ports, once it is finished
    approved_by = models.CharField(max_length=250, blank=True, default="")
    started_at = models.DateTimeField(null=True, blank=True)
    deadline_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ["id"]
        constraints = [
            models.UniqueConstraint(fields=["chain", "step", "index"], name="one_row_per_call"),
            one_of(StepStatus, field="status", name="chain_step_status"),
            models.CheckConstraint(
                condition=~Q(status__in=[StepStatus.RUNNING, StepStatus.FINISHED]) | Q(request__isnull=False),
                name="running_step_has_a_request",
            ),
        ]
        indexes = [
            models.Index(
                fields=["status", "request"],
                name="chain_step_open",
                condition=Q(status__in=[StepStatus.RUNNING, StepStatus.HELD]),
            ),
            models.Index(
                fields=["deadline_at"],
                name="chain_step_deadline",
                condition=Q(status__in=[StepStatus.RUNNING, StepStatus.HELD], deadline_at__isnull=False),
            ),
        ]

    def __str__(self) -> str:
        return self.step + "".join(f"[{one}]" for one in self.index)


class ChainDataset(Leased):
    """A dataset between the steps of a chain, with the steps that read it."""

    id = models.BigAutoField(primary_key=True)
    chain = models.ForeignKey(Chain, on_delete=models.PROTECT, related_name="datasets")
    producer = models.ForeignKey(
        ChainStep, null=True, blank=True, on_delete=models.PROTECT, related_name="datasets"
    )
    consumers = models.ManyToManyField(ChainStep, related_name="consumes", blank=True)
    port = models.CharField(max_length=100)  # of the producer, or the workflow's input
    dataset_name = name_field(Name.DATASET, db_index=True)
    role = enum_field(DatasetRole)
    status = enum_field(DatasetStatus, default=DatasetStatus.PLANNED)
    status_since = models.DateTimeField()
    wait_reason = models.TextField(blank=True, default="")
    removal_reason = models.TextField(blank=True, default="")

    class Meta:
        ordering = ["id"]
        constraints = [
            models.UniqueConstraint(fields=["chain", "dataset_name"], name="chain_dataset_once"),
            models.UniqueConstraint(
                fields=["dataset_name"],
                condition=Q(producer__isnull=False),
                name="one_producer_per_dataset",
            ),
            one_of(DatasetRole, field="role", name="chain_dataset_role"),
            one_of(DatasetStatus, field="status", name="chain_dataset_status"),
            models.CheckConstraint(
                condition=~Q(role=DatasetRole.FINAL, status__in=sorted(GOING)),
                name="finals_are_never_removed",
            ),
        ]
        indexes = [
            models.Index(
                fields=["next_check_at"],
                name="chain_dataset_due",
                condition=Q(status=DatasetStatus.REMOVING),
            ),
        ]

    def __str__(self) -> str:
        return self.dataset_name


class ChainCallback(CallbackRow):
    """Notification of the announcement's URL about the end of a chain."""

    chain = models.OneToOneField(Chain, on_delete=models.PROTECT, related_name="callback")

    class Meta:
        constraints = [one_of(CallbackStatus, field="status", name="chain_callback_status")]
        indexes = [
            models.Index(
                fields=["next_check_at"],
                name="chain_callback_due",
                condition=Q(status=CallbackStatus.PENDING),
            ),
        ]

    def __str__(self) -> str:
        return f"{self.chain} {self.status}"


class ChainEvent(models.Model):
    """An event in the history of a chain. Append-only: a trigger refuses edits and deletions."""

    id = models.BigAutoField(primary_key=True)
    chain = models.ForeignKey(Chain, on_delete=models.PROTECT, related_name="events")
    step = models.ForeignKey(
        ChainStep, null=True, blank=True, on_delete=models.PROTECT, related_name="events"
    )
    kind = models.CharField(max_length=50)  # "chain", "step", "dataset", or the name of an action
    from_status = models.CharField(max_length=32, blank=True, default="")
    to_status = models.CharField(max_length=32, blank=True, default="")
    reason = models.TextField()
    actor = models.CharField(max_length=250)
    detail = models.JSONField(default=dict)
    at = models.DateTimeField()

    class Meta:
        ordering = ["id"]
        constraints = [
            models.CheckConstraint(condition=~Q(reason=""), name="chain_event_has_a_reason"),
            models.CheckConstraint(condition=~Q(actor=""), name="chain_event_has_an_actor"),
        ]
        indexes = [models.Index(fields=["chain", "at", "id"], name="chain_event_by_time")]

    def __str__(self) -> str:
        return f"{self.kind} {self.to_status}"
