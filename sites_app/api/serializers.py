"""How sites look from outside, and what an operator says to drain or enable one."""

from __future__ import annotations

from datetime import datetime

from django.utils import timezone
from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from sites_app.models import Site, SiteBan
from wms2_project.api.views import ReasonInput


class SiteRow(serializers.ModelSerializer[Site]):
    """One site."""

    class Meta:
        model = Site
        fields: tuple[str, ...] = (
            "name", "status", "drain_until", "storage_elements", "total_slots", "running_slots",
            "pending_slots", "schedd_name", "synced_at", "updated_at", "version",
        )  # fmt: skip
        read_only_fields = fields


class BanRow(serializers.ModelSerializer[SiteBan]):
    """A ban in force; without a workflow it holds for all."""

    workflow = serializers.UUIDField(source="workflow_id", allow_null=True, read_only=True)

    class Meta:
        model = SiteBan
        fields: tuple[str, ...] = (
            "id",
            "workflow",
            "reason",
            "failure_data",
            "created_by",
            "created_at",
            "expires_at",
        )
        read_only_fields = fields


class SiteDetail(SiteRow):
    """One site with its configuration and the bans in force."""

    bans = serializers.SerializerMethodField()

    class Meta(SiteRow.Meta):
        fields = (
            *SiteRow.Meta.fields, "storage_path", "collector_host", "thresholds", "config_data", "bans",
        )  # fmt: skip
        read_only_fields = fields

    @extend_schema_field(BanRow(many=True))
    def get_bans(self, site: Site) -> object:
        """Bans that are neither removed nor over."""
        now = timezone.now()
        in_force = site.bans.filter(removed_at__isnull=True, expires_at__gt=now)
        return BanRow(in_force.order_by("expires_at")[:100], many=True).data


class DrainInput(ReasonInput):
    """Stop new work at a site."""

    until = serializers.DateTimeField(
        required=False, allow_null=True, default=None, help_text="When it ends by itself; absent: not."
    )

    def validate_until(self, value: datetime | None) -> datetime | None:
        """A drain that is over before it begins is a slip."""
        if value is not None and value <= timezone.now():
            raise serializers.ValidationError("This is in the past.")
        return value
