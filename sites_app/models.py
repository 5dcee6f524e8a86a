"""Sites and the bans that keep work away from them."""

from __future__ import annotations

import uuid

from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import F, Q

from dags_app.models import Workflow
from sites_app.states import CricState, SiteStatus
from wms2_project.fields import enum_field, name_field, one_of
from wms2_project.grammar import Name


class Site(models.Model):
    """A place with batch slots, usually with storage nearby."""

    name = name_field(Name.SITE, primary_key=True)
    status = enum_field(SiteStatus, default=SiteStatus.ENABLED)
    drain_until = models.DateTimeField(null=True, blank=True)  # when a drain or a maintenance ends by itself
    status_by = models.CharField(max_length=250, blank=True, default="")
    status_reason = models.TextField(blank=True, default="")
    set_by_operator = models.BooleanField(default=False)  # admins of the site cannot change it then
    storage_elements = ArrayField(name_field(Name.RSE), default=list, blank=True)
    storage_prefixes = models.JSONField(default=list, blank=True)  # URLs, from the protocols in Rucio
    total_slots = models.PositiveIntegerField(default=0)
    running_slots = models.PositiveIntegerField(default=0)
    pending_slots = models.PositiveIntegerField(default=0)
    slots_measured_at = models.DateTimeField(null=True, blank=True)
    thresholds = models.JSONField(default=dict, blank=True)
    config_data = models.JSONField(default=dict, blank=True)
    storage_asked_at = models.DateTimeField(null=True, blank=True)  # last query of the storage usage
    version = models.PositiveIntegerField(default=0)
    cric_state = enum_field(CricState, default=CricState.ACTIVE)
    synced_at = models.DateTimeField(null=True, blank=True)  # last listed by CRIC
    updated_at = models.DateTimeField(auto_now=True)

    class Meta:
        ordering = ["name"]
        constraints = [
            one_of(SiteStatus, field="status", name="site_status"),
            one_of(CricState, field="cric_state", name="site_cric_state"),
        ]

    def __str__(self) -> str:
        return self.name


class SlotSample(models.Model):
    """Cores of a site in an interval: in the pool, running jobs, and wanted by waiting jobs."""

    site = models.ForeignKey(Site, on_delete=models.CASCADE, related_name="slot_samples", db_index=False)
    at = models.DateTimeField()  # beginning of the interval
    total = models.PositiveIntegerField()
    running = models.PositiveIntegerField()
    pending = models.PositiveIntegerField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["site", "at"], name="one_slot_sample")]
        indexes = [models.Index(fields=["at"], name="slot_sample_at")]

    def __str__(self) -> str:
        return f"{self.site_id} at {self.at:%F %R}"


class SiteSource(models.Model):
    """A service from which sites are read on schedule, and the outcome."""

    name = models.CharField(primary_key=True, max_length=32)
    answered_at = models.DateTimeField(null=True, blank=True)
    failures = models.PositiveIntegerField(default=0)  # in a row
    error = models.TextField(blank=True, default="")

    def __str__(self) -> str:
        return self.name


class SiteBan(models.Model):
    """A time-limited exclusion of a site, for one workflow or, without one, for all."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    site = models.ForeignKey(Site, on_delete=models.PROTECT, related_name="bans")
    workflow = models.ForeignKey(
        Workflow, null=True, blank=True, on_delete=models.PROTECT, related_name="site_bans"
    )
    reason = models.TextField()
    failure_data = models.JSONField(default=dict)
    created_by = models.CharField(max_length=250)
    by_operator = models.BooleanField(default=False)  # site admins cannot lift it then
    created_at = models.DateTimeField(auto_now_add=True)
    expires_at = models.DateTimeField()
    removed_at = models.DateTimeField(null=True, blank=True)
    removed_by = models.CharField(max_length=250, blank=True, default="")

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=Q(expires_at__gt=F("created_at")), name="ban_ends_after_it_begins"
            ),
            models.CheckConstraint(
                condition=Q(removed_at__isnull=True) | ~Q(removed_by=""), name="ban_removal_names_who"
            ),
            models.UniqueConstraint(
                fields=["site", "workflow"],
                condition=Q(removed_at__isnull=True),
                name="one_ban_per_site_and_workflow",
            ),
            models.UniqueConstraint(
                fields=["site"],
                condition=Q(removed_at__isnull=True, workflow__isnull=True),
                name="one_ban_for_all_per_site",
            ),
        ]
        indexes = [
            models.Index(
                fields=["site", "expires_at"], name="ban_in_force", condition=Q(removed_at__isnull=True)
            ),
        ]

    def __str__(self) -> str:
        return f"{self.site_id} until {self.expires_at:%F %R}"
