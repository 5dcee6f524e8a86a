"""Requests, their history, callbacks and alerts, and the limits of admission and quotas."""

from __future__ import annotations

import uuid

from django.db import models
from django.db.models import Q

from dags_app.models import Workflow
from requests_app.states import (
    SWEPT,
    TERMINAL,
    AlertState,
    CallbackStatus,
    CleanupPolicy,
    QuotaScope,
    RequestStatus,
    StoragePolicy,
)
from wms2_project.fields import enum_field, name_field, one_of
from wms2_project.grammar import Name
from wms2_project.leases import Leased


class Request(Leased):
    """A request for processing. Owns the status; execution details are on its workflow."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    request_name = name_field(Name.REQUEST, unique=True)
    workflow = models.OneToOneField(Workflow, on_delete=models.PROTECT, related_name="+")
    request_data = models.JSONField()  # the submitted document, unchanged
    source = models.CharField(max_length=16, default="document")

    requestor = models.CharField(max_length=100)
    requestor_dn = models.CharField(max_length=500, blank=True, default="")
    group = models.CharField(max_length=100, blank=True, default="")
    submitted_by = models.CharField(max_length=250, blank=True, default="")
    campaign = models.CharField(max_length=200, blank=True, default="")
    wms_backend = models.CharField(max_length=16, default="wms2")

    priority = models.PositiveIntegerField(default=100_000)
    rank = models.FloatField(default=0.0)
    urgent = models.BooleanField(default=False)

    status = enum_field(RequestStatus, default=RequestStatus.NEW)
    status_since = models.DateTimeField()
    wait_reason = models.TextField(blank=True, default="")
    wait_gate = models.CharField(max_length=32, blank=True, default="")  # the last blocking gate
    hold_evidence = models.JSONField(null=True, blank=True)
    hold_after_stop = models.BooleanField(default=False)

    processing_version = models.PositiveIntegerField(default=1)
    previous_version = models.OneToOneField(
        "self", null=True, blank=True, on_delete=models.PROTECT, related_name="superseded_by"
    )
    cleanup_policy = enum_field(CleanupPolicy, default=CleanupPolicy.KEEP_UNTIL_REPLACED)

    correlation_id = models.CharField(max_length=200, blank=True, default="", db_index=True)
    idempotency_key = models.CharField(max_length=200, null=True, blank=True, unique=True)
    idempotency_digest = models.CharField(max_length=64, blank=True, default="")
    callback_url = models.URLField(max_length=500, blank=True, default="")

    version = models.PositiveIntegerField(default=0)
    created_at = models.DateTimeField(auto_now_add=True)
    updated_at = models.DateTimeField(auto_now=True)

    class Meta:
        constraints = [
            one_of(RequestStatus, field="status", name="request_status"),
            models.CheckConstraint(condition=Q(priority__lte=1_000_000), name="request_priority"),
            one_of(CleanupPolicy, field="cleanup_policy", name="request_cleanup_policy"),
        ]
        indexes = [
            models.Index(fields=["next_check_at"], name="request_due", condition=Q(status__in=sorted(SWEPT))),
            models.Index(
                fields=["-rank", "created_at"], name="request_queue", condition=Q(status=RequestStatus.QUEUED)
            ),
            models.Index(fields=["status"], name="request_open", condition=~Q(status__in=sorted(TERMINAL))),
            models.Index(fields=["-created_at", "-id"], name="request_newest"),
            models.Index(fields=["-created_at", "-id"], name="request_urgent", condition=Q(urgent=True)),
            models.Index(fields=["campaign", "-created_at"], name="request_campaign"),
            models.Index(fields=["status", "-created_at", "-id"], name="request_by_status"),
            models.Index(fields=["requestor", "-created_at"], name="request_by_requestor"),
            models.Index(fields=["submitted_by", "-created_at"], name="request_by_submitter"),
            models.Index(fields=["group", "-created_at"], name="request_by_group", condition=~Q(group="")),
            models.Index(
                fields=["requestor"], name="request_open_of", condition=~Q(status__in=sorted(TERMINAL))
            ),
            models.Index(
                fields=["group"],
                name="request_open_of_group",
                condition=~Q(status__in=sorted(TERMINAL)) & ~Q(group=""),
            ),
            models.Index(fields=["-priority", "-created_at", "-id"], name="request_by_priority"),
            models.Index(
                fields=["status_since"], name="request_ended", condition=Q(status__in=sorted(TERMINAL))
            ),
            models.Index(
                fields=["previous_version"],
                name="request_complete_restart",
                condition=Q(status=RequestStatus.COMPLETED, previous_version__isnull=False),
            ),
        ]

    def __str__(self) -> str:
        return self.request_name


class StatusTransition(models.Model):
    """A status change with actor and reason. Append-only: a trigger refuses edits and deletions."""

    id = models.BigAutoField(primary_key=True)
    request = models.ForeignKey(Request, on_delete=models.PROTECT, related_name="transitions")
    from_status = enum_field(RequestStatus, blank=True)
    to_status = enum_field(RequestStatus)
    reason = models.TextField()
    actor = models.CharField(max_length=250)
    call_id = models.CharField(max_length=100, blank=True, default="")  # the HTTP call that caused it
    evidence = models.JSONField(null=True, blank=True)  # of a hold; the request has that of its last one only
    at = models.DateTimeField()

    class Meta:
        ordering = ["id"]
        indexes = [models.Index(fields=["to_status", "at"], name="transition_by_time")]
        constraints = [
            models.CheckConstraint(condition=~Q(reason=""), name="transition_has_a_reason"),
            models.CheckConstraint(condition=~Q(actor=""), name="transition_has_an_actor"),
        ]

    def __str__(self) -> str:
        return f"{self.from_status} → {self.to_status}"


class ProgressSample(models.Model):
    """Progress of a request at one time: see `services.sampling`. Older samples are farther apart."""

    id = models.BigAutoField(primary_key=True)
    request = models.ForeignKey(Request, on_delete=models.PROTECT, related_name="samples")
    at = models.DateTimeField()
    thinning = models.PositiveSmallIntegerField(default=0)  # how often the samples around it were thinned
    status = enum_field(RequestStatus)
    gate = models.CharField(max_length=32, blank=True, default="")
    reason = models.TextField(blank=True, default="")
    events_total = models.PositiveBigIntegerField(default=0)
    events_done = models.PositiveBigIntegerField(default=0)
    events_running = models.PositiveBigIntegerField(default=0)
    events_excluded = models.PositiveBigIntegerField(default=0)
    groups_total = models.PositiveIntegerField(default=0)
    groups_done = models.PositiveIntegerField(default=0)
    jobs_running = models.PositiveIntegerField(default=0)
    jobs_idle = models.PositiveIntegerField(default=0)
    jobs_held = models.PositiveIntegerField(default=0)
    estimated_completion = models.DateTimeField(null=True, blank=True)
    earliest = models.DateTimeField(null=True, blank=True)
    latest = models.DateTimeField(null=True, blank=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["request", "at"], name="progress_sample_once"),
            one_of(RequestStatus, field="status", name="progress_sample_status"),
        ]
        indexes = [models.Index(fields=["thinning", "at"], name="progress_sample_by_age")]

    def __str__(self) -> str:
        return f"{self.events_done} of {self.events_total} events"


class RetentionRecord(models.Model):
    """Progress of a policy of `services.retention`."""

    name = models.CharField(max_length=32, primary_key=True)
    through = models.DateTimeField(null=True, blank=True)  # requests that ended before it are done
    removed = models.PositiveBigIntegerField(default=0)  # rows since the beginning
    ran_at = models.DateTimeField(null=True, blank=True)
    message = models.TextField(blank=True, default="")  # why rows could not be removed

    def __str__(self) -> str:
        return f"{self.name}: {self.removed} removed"


class TimelineEntry(models.Model):
    """A status change or action of a request. A view over both tables."""

    id = models.CharField(primary_key=True, max_length=40)
    request = models.ForeignKey(Request, on_delete=models.DO_NOTHING, related_name="timeline")
    kind = models.CharField(max_length=50)  # "status", or the name of the action
    from_status = models.CharField(max_length=32)
    to_status = models.CharField(max_length=32)
    reason = models.TextField()
    actor = models.CharField(max_length=250)
    call_id = models.CharField(max_length=100)
    at = models.DateTimeField()
    detail = models.JSONField()

    class Meta:
        managed = False
        db_table = "requests_app_timeline"

    def __str__(self) -> str:
        return f"{self.kind} by {self.actor}"


class CallbackRow(Leased):
    """Abstract notification of a URL about an end. The row is swept until delivered."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    status = enum_field(CallbackStatus, default=CallbackStatus.PENDING)
    created_at = models.DateTimeField(auto_now_add=True)
    delivered_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        abstract = True


class Callback(CallbackRow):
    """Notification of the requestor's URL about the end of a request."""

    request = models.ForeignKey(Request, on_delete=models.PROTECT, related_name="callbacks")
    event = enum_field(RequestStatus)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["request", "event"], name="callback_once_per_end"),
            one_of(CallbackStatus, field="status", name="callback_status"),
        ]
        indexes = [
            models.Index(
                fields=["next_check_at"],
                name="callback_due",
                condition=Q(status=CallbackStatus.PENDING),
            ),
        ]

    def __str__(self) -> str:
        return f"{self.event} {self.status}"


class Alert(models.Model):
    """An alert for operators. One open row per kind and request or site."""

    id = models.BigAutoField(primary_key=True)
    request = models.ForeignKey(
        Request, null=True, blank=True, on_delete=models.PROTECT, related_name="alerts"
    )
    site = models.CharField(max_length=100, blank=True, default="")  # subject of an alert without a request
    kind = models.CharField(max_length=50)
    message = models.TextField()
    count = models.PositiveIntegerField(default=1)
    created_at = models.DateTimeField(auto_now_add=True)
    last_seen_at = models.DateTimeField(auto_now_add=True)
    closed_at = models.DateTimeField(null=True, blank=True)
    sent_at = models.DateTimeField(null=True, blank=True)  # by webhook or e-mail
    send_attempts = models.PositiveSmallIntegerField(default=0)
    acknowledged_at = models.DateTimeField(null=True, blank=True)
    acknowledged_by = models.CharField(max_length=250, blank=True, default="")
    acknowledge_reason = models.TextField(blank=True, default="")

    class Meta:
        indexes = [
            models.Index(fields=["-created_at", "-id"], name="alert_by_time"),
            models.Index(fields=["kind", "-created_at", "-id"], name="alert_by_kind"),
            models.Index(
                fields=["site", "-created_at", "-id"],
                name="alert_by_site",
                condition=Q(request__isnull=True),
            ),
            models.Index(
                fields=["-created_at", "-id"], name="alert_open", condition=Q(closed_at__isnull=True)
            ),
            models.Index(fields=["id"], name="alert_unsent", condition=Q(sent_at__isnull=True)),
            models.Index(fields=["-closed_at", "-id"], name="alert_newest"),  # open alerts first
        ]
        constraints = [
            models.UniqueConstraint(
                fields=["request", "kind"],
                condition=Q(closed_at__isnull=True),
                name="one_open_alert_per_kind",
            ),
            models.UniqueConstraint(
                fields=["site", "kind"],
                condition=Q(closed_at__isnull=True, request__isnull=True),
                name="one_open_alert_per_site",
            ),
            models.CheckConstraint(
                condition=Q(request__isnull=False) ^ ~Q(site=""), name="alert_about_a_request_or_a_site"
            ),
            models.CheckConstraint(
                condition=Q(acknowledged_at__isnull=True) | ~Q(acknowledged_by=""),
                name="acknowledgement_names_who",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.kind}: {self.message}"

    @property
    def subject(self) -> str:
        """Name of the request or site."""
        return self.request.request_name if self.request is not None else self.site

    @property
    def state(self) -> AlertState:
        """Whether the alert is open, acknowledged or closed."""
        if self.closed_at is not None:
            return AlertState.CLOSED
        return AlertState.OPEN if self.acknowledged_at is None else AlertState.ACKNOWLEDGED


class AdmissionConfig(models.Model):
    """Admission limits, changeable at any time. Exactly one row."""

    id = models.PositiveSmallIntegerField(primary_key=True, default=1, editable=False)
    max_active_dags = models.PositiveIntegerField(default=300)
    paused = models.BooleanField(default=False)
    pause_reason = models.TextField(blank=True, default="")
    storage_critical_fraction = models.FloatField(default=0.95)
    storage_policy = enum_field(StoragePolicy, default=StoragePolicy.CLOSE)
    # Rank of a queued request, see requests_app.ranking: per unit of priority, hour in the queue, and retry
    priority_weight = models.FloatField(default=1.0)
    ageing_weight = models.FloatField(default=0.0)
    retry_weight = models.FloatField(default=0.0)
    updated_by = models.CharField(max_length=250, default="system:default")
    version = models.PositiveIntegerField(default=0)
    updated_at = models.DateTimeField(auto_now=True)

    class Meta:
        verbose_name = "admission limits"
        verbose_name_plural = "admission limits"
        constraints = [
            models.CheckConstraint(condition=Q(id=1), name="one_admission_config"),
            models.CheckConstraint(
                condition=Q(storage_critical_fraction__gt=0, storage_critical_fraction__lte=1),
                name="admission_storage_fraction",
            ),
            one_of(StoragePolicy, field="storage_policy", name="admission_storage_policy"),
            models.CheckConstraint(
                condition=Q(
                    priority_weight__range=(0, 1e6),
                    ageing_weight__range=(0, 1e6),
                    retry_weight__range=(0, 1e6),
                ),
                name="admission_rank_weights",
            ),
            models.CheckConstraint(
                condition=Q(paused=False) | ~Q(pause_reason=""), name="admission_pause_has_a_reason"
            ),
        ]

    def __str__(self) -> str:
        return "admission limits"


class Quota(models.Model):
    """Quota of one requestor or group. A null limit falls back to the row named `*`."""

    id = models.BigAutoField(primary_key=True)
    scope = enum_field(QuotaScope)
    name = models.CharField(max_length=100)
    open_requests = models.PositiveIntegerField(null=True, blank=True)
    submissions_per_hour = models.PositiveIntegerField(null=True, blank=True)
    queued_jobs = models.PositiveIntegerField(null=True, blank=True)
    storage_gb = models.PositiveBigIntegerField(null=True, blank=True)
    updated_by = models.CharField(max_length=250, default="system:default")
    version = models.PositiveIntegerField(default=0)
    updated_at = models.DateTimeField(auto_now=True)

    class Meta:
        ordering = ["scope", "name"]
        constraints = [
            models.UniqueConstraint(fields=["scope", "name"], name="quota_once"),
            one_of(QuotaScope, field="scope", name="quota_scope"),
            models.CheckConstraint(
                condition=~Q(name="*")
                | Q(
                    open_requests__isnull=False,
                    submissions_per_hour__isnull=False,
                    queued_jobs__isnull=False,
                    storage_gb__isnull=False,
                ),
                name="default_quota_is_complete",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.scope} {self.name}"
