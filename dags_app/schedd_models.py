"""Schedds, and what operators decided about them."""

from __future__ import annotations

from django.db import models

from dags_app.states import ScheddStatus
from wms2_project.fields import enum_field, one_of


class Schedd(models.Model):
    """A schedd: its status set by operators, and whether it answers."""

    name = models.CharField(primary_key=True, max_length=200)
    status = enum_field(ScheddStatus, default=ScheddStatus.ENABLED)
    reason = models.TextField(blank=True, default="")
    drain_deadline = models.DateTimeField(null=True, blank=True)  # when DAGs that still run there are stopped
    asked_at = models.DateTimeField(null=True, blank=True)
    answered_at = models.DateTimeField(null=True, blank=True)
    silent_since = models.DateTimeField(null=True, blank=True)
    dagmans_allowed = models.PositiveIntegerField(null=True, blank=True)  # None: no limit
    dagmans_running = models.PositiveIntegerField(default=0)  # outer and inner ones
    counted_at = models.DateTimeField(null=True, blank=True)
    version = models.PositiveIntegerField(default=0)
    updated_at = models.DateTimeField(auto_now=True)

    class Meta:
        constraints = [one_of(ScheddStatus, field="status", name="schedd_status")]

    def __str__(self) -> str:
        return self.name
