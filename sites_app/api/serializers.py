"""How sites look from outside, and what an operator says to drain or enable one."""

from __future__ import annotations

from datetime import datetime
from typing import Any, ClassVar

from django.utils import timezone
from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from sites_app.bans import in_force
from sites_app.models import Site, SiteBan
from sites_app.states import CLOSED
from wms2_project.api.views import ReasonInput
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
    """A ban in force; without a workflow it holds for all."""

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
        fields = (*SiteRow.Meta.fields, "storage_path", "thresholds", "config_data", "bans")
        read_only_fields = fields

    @extend_schema_field(BanRow(many=True))
    def get_bans(self, site: Site) -> object:
        """Bans that are neither removed nor over."""
        bans = in_force(site, now=timezone.now()).select_related("workflow")
        return BanRow(bans.order_by("expires_at")[:100], many=True).data


class SiteInput(ReasonInput):
    """What is known of a site beyond CRIC; what is absent stays, null forgets."""

    elsewhere: ClassVar[dict[str, str]] = {
        "drain_until": "Use /drain or /maintenance with until.",
        "total_slots": MEASURED_SLOTS,
        "running_slots": MEASURED_SLOTS,
        "pending_slots": MEASURED_SLOTS,
        "bans": "Use /ban.",
        "name": "The name of a site does not change.",
        "synced_at": "It is set when the sites are taken over from CRIC.",
    }
    status = serializers.ChoiceField(
        choices=[(one.value, one.value) for one in CLOSED], required=False,
        help_text="Close the site until it is enabled, as /disable and /maintenance do."
        " Use /drain and /enable for the other statuses.",
    )  # fmt: skip
    storage_elements = serializers.ListField(
        child=serializers.CharField(validators=[LegalName(Name.RSE.value)]),
        min_length=1, max_length=100, required=False, allow_null=True,
        help_text="The storages its jobs read. They stand over CRIC's until set to null, which the next"
        " synchronisation follows.",
    )  # fmt: skip
    notes = serializers.CharField(
        max_length=2000, required=False, allow_null=True, help_text="For whoever operates the site."
    )
    memory_mb_per_core = serializers.IntegerField(
        min_value=1, max_value=1_000_000, required=False, allow_null=True
    )
    storage_used_fraction = serializers.FloatField(
        min_value=0,
        max_value=1,
        required=False,
        allow_null=True,
        help_text="Admission looks at it. It stands over what Rucio says until it is set to null.",
    )

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        """A change that changes nothing is a slip."""
        if set(attrs) == {"reason"}:
            raise serializers.ValidationError({"body": "Name at least one thing to change."})
        return attrs


def in_the_future(value: datetime) -> None:
    """What is over before it begins is a slip."""
    if value <= timezone.now():
        raise serializers.ValidationError("This is in the past.")


class DrainInput(ReasonInput):
    """Stop new work at a site."""

    until = serializers.DateTimeField(
        required=False, allow_null=True, default=None, validators=[in_the_future],
        help_text="When it ends by itself; absent: not.",
    )  # fmt: skip


class MaintenanceInput(ReasonInput):
    """Close a site for maintenance."""

    until = serializers.DateTimeField(
        required=False, allow_null=True, default=None, validators=[in_the_future],
        help_text="When the site takes work again by itself. Leave empty for a maintenance without an end.",
    )  # fmt: skip


class BanInput(ReasonInput):
    """Keep work away from a site."""

    request_name = serializers.CharField(
        required=False, allow_null=True, default=None, help_text="Only this request; absent: all."
    )
    until = serializers.DateTimeField(
        required=False, allow_null=True, default=None, validators=[in_the_future],
        help_text="When it ends; absent: after the usual time.",
    )  # fmt: skip


class LiftInput(ReasonInput):
    """Let work go to a site again."""

    request_name = serializers.CharField(
        required=False, allow_null=True, default=None, help_text="Only this request's ban; absent: all bans."
    )
