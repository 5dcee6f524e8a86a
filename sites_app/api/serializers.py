"""Serializers of sites and inputs of their operations."""

from __future__ import annotations

from datetime import datetime
from typing import Any, ClassVar

from django.utils import timezone
from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from sites_app.models import Site, SiteBan
from sites_app.services.bans import in_force
from sites_app.states import CLOSED
from wms2_project.api.views import ChangesInput, ReasonInput
from wms2_project.fields import LegalName
from wms2_project.grammar import Name

MEASURED_SLOTS = "It is measured from the pool."


class SiteRow(serializers.ModelSerializer[Site]):
    """One site."""

    class Meta:
        model = Site
        fields: tuple[str, ...] = (
            "name", "status", "drain_until", "storage_elements", "total_slots", "running_slots",
            "pending_slots", "slots_measured_at", "status_by", "status_reason", "cric_state", "synced_at",
            "updated_at", "version",
        )  # fmt: skip
        read_only_fields = fields


class BanRow(serializers.ModelSerializer[SiteBan]):
    """A ban in force. Without a workflow it applies to all requests."""

    workflow = serializers.UUIDField(source="workflow_id", allow_null=True, read_only=True)
    request_name = serializers.CharField(
        source="workflow.request_name", default=None, allow_null=True, read_only=True
    )

    class Meta:
        model = SiteBan
        fields: tuple[str, ...] = (
            "id",
            "workflow",
            "request_name",
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
            *SiteRow.Meta.fields,
            "storage_prefixes",
            "thresholds",
            "config_data",
            "bans",
        )
        read_only_fields = fields

    @extend_schema_field(BanRow(many=True))
    def get_bans(self, site: Site) -> object:
        """Return the bans in force."""
        bans = in_force(site, now=timezone.now()).select_related("workflow")
        return BanRow(bans.order_by("expires_at")[:100], many=True).data


class SiteInput(ChangesInput):
    """Site settings beyond CRIC. Absent fields are unchanged; null removes a value."""

    elsewhere: ClassVar[dict[str, str]] = {
        "drain_until": "Use /drain or /maintenance with until.",
        "total_slots": MEASURED_SLOTS,
        "running_slots": MEASURED_SLOTS,
        "pending_slots": MEASURED_SLOTS,
        "bans": "Use /ban.",
        "name": "The name of a site cannot be changed.",
        "synced_at": "Set by the synchronisation with CRIC.",
    }
    status = serializers.ChoiceField(
        choices=[(one.value, one.value) for one in CLOSED], required=False,
        help_text="Close the site until it is enabled, as /disable and /maintenance do."
        " Use /drain and /enable for the other statuses.",
    )  # fmt: skip
    storage_elements = serializers.ListField(
        child=serializers.CharField(validators=[LegalName(Name.RSE.value)]),
        min_length=1, max_length=100, required=False, allow_null=True,
        help_text="The storages its jobs read. They override CRIC's; null restores those with the next"
        " synchronisation.",
    )  # fmt: skip
    notes = serializers.CharField(
        max_length=2000, required=False, allow_null=True, help_text="Notes for operators of the site."
    )
    memory_mb_per_core = serializers.IntegerField(
        min_value=1, max_value=1_000_000, required=False, allow_null=True
    )
    storage_used_fraction = serializers.FloatField(
        min_value=0,
        max_value=1,
        required=False,
        allow_null=True,
        help_text="Used by admission. Overrides the value from Rucio until set to null.",
    )
    storage_distances = serializers.DictField(
        child=serializers.IntegerField(min_value=0, max_value=100), required=False, allow_null=True,
        help_text='Distances from the site to storages for pull mode, as {"STORAGE": 0 to 100}. Others'
        " keep the default: 0 if the site reads them, 50 in the same country, 100 elsewhere.",
    )  # fmt: skip

    def validate_storage_distances(self, value: dict[str, int] | None) -> dict[str, int] | None:
        """Refuse keys that are not storage names."""
        for name in value or {}:
            LegalName(Name.RSE.value)(name)
        return value


def in_the_future(value: datetime) -> None:
    """Raise if the time is in the past."""
    if value <= timezone.now():
        raise serializers.ValidationError("Must be in the future.")


def _until(help_text: str) -> Any:
    return serializers.DateTimeField(
        required=False, allow_null=True, default=None, validators=[in_the_future], help_text=help_text
    )


def _request_name(help_text: str) -> Any:
    return serializers.CharField(required=False, allow_null=True, default=None, help_text=help_text)


class DrainInput(ReasonInput):
    """Stop new work at a site."""

    until = _until("When the drain ends automatically. Absent: never.")


class MaintenanceInput(ReasonInput):
    """Close a site for maintenance."""

    until = _until(
        "When the site takes work again automatically. Leave empty for a maintenance without an end."
    )


class BanInput(ReasonInput):
    """Keep work away from a site."""

    request_name = _request_name("Ban only this request. Absent: all requests.")
    until = _until("When the ban ends. Absent: after the default duration.")


class LiftInput(ReasonInput):
    """Allow work at a site again."""

    request_name = _request_name("Lift only the ban of this request. Absent: all bans.")
