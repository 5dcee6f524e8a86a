"""What callers may send about requests. The services check meaning; here only shape and grammar."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

from rest_framework import serializers

from requests_app.services.releasing import Modifications
from requests_app.states import CleanupPolicy
from wms2_project.api.views import Input, ReasonInput
from wms2_project.fields import LegalName, choices
from wms2_project.grammar import Name

EXAMPLE: dict[str, Any] = json.loads((Path(__file__).parent / "example.json").read_text())
IMPORT_SCHEMA: dict[str, Any] = {
    "oneOf": [
        {
            "type": "object",
            "title": "ImportByName",
            "description": "Fetch the document of this name from ReqMgr2.",
            "required": ["request_name", "source"],
            "properties": {
                "request_name": {"type": "string", "pattern": "^[A-Za-z0-9][A-Za-z0-9_.-]{0,199}$"},
                "source": {"type": "string", "enum": ["reqmgr2"]},
                "correlation_id": {"type": "string", "maxLength": 200},
                "callback_url": {"type": "string", "format": "uri", "maxLength": 500},
                "submitted_by": {"type": "string", "maxLength": 240, "description": "Believed of operators."},
                "draft": {"type": "boolean", "description": "Keep it as a draft until it is submitted."},
            },
            "additionalProperties": False,
        },
        {
            "type": "object",
            "title": "RequestDocument",
            "description": "A whole request document, with ReqMgr2's names or ours.",
            "properties": {
                "draft": {"type": "boolean", "description": "Keep it as a draft until it is submitted."}
            },
            "additionalProperties": True,
            "example": EXAMPLE,
        },
    ]
}


class ImportByName(Input):
    """Fetch the document of this name from ReqMgr2."""

    request_name = serializers.CharField(validators=[LegalName(Name.REQUEST.value)])
    source = serializers.ChoiceField(choices=["reqmgr2"])  # type: ignore[assignment]
    correlation_id = serializers.CharField(max_length=200, required=False)
    callback_url = serializers.CharField(max_length=500, required=False)
    submitted_by = serializers.CharField(max_length=240, required=False)
    draft = serializers.BooleanField(required=False)


DRY_RUN_HELP = "Only return what would happen."


class StopInput(ReasonInput):
    """Stop cleanly."""

    hold = serializers.BooleanField(
        default=False, label="Stay held", help_text="Stay held afterwards instead of resuming."
    )


class RestartInput(ReasonInput):
    """End the request and submit its next version."""

    cleanup_policy = serializers.ChoiceField(
        choices=choices(CleanupPolicy), required=False, label="Outputs of this version",
        help_text="What happens to the old outputs once the new version is complete.",
    )  # fmt: skip
    dry_run = serializers.BooleanField(default=False, help_text=DRY_RUN_HELP)


class ShareInput(ReasonInput):
    """Allow a request to write into datasets of others."""

    datasets = serializers.ListField(
        child=serializers.CharField(validators=[LegalName(Name.DATASET.value)]), max_length=100,
        required=False, label="Output datasets",
        help_text="Dataset names separated by spaces. Leave empty for all outputs of the request.",
    )  # fmt: skip


class OptionalReason(Input):
    """A reason in the body of a DELETE; it may come in the query instead."""

    reason = serializers.CharField(max_length=1000, required=False)


def _sites(label: str, help_text: str) -> Any:
    name = serializers.CharField(validators=[LegalName(Name.SITE.value)])
    return serializers.ListField(child=name, max_length=500, required=False, label=label, help_text=help_text)


class ReleaseChanges(Input):
    """What may change with a release."""

    site_bans = _sites("Sites to ban", "Site names separated by spaces. They are banned for this request.")
    excluded_files = serializers.ListField(
        child=serializers.CharField(validators=[LegalName(Name.LFN.value)]), max_length=10_000,
        required=False, label="Files to exclude", help_text="LFNs separated by spaces.",
    )  # fmt: skip
    memory_mb = serializers.IntegerField(
        min_value=1, max_value=1_000_000, required=False, label="Memory per job (MB)",
        help_text="Outranks measurements.",
    )  # fmt: skip
    time_per_event_sec = serializers.FloatField(
        min_value=0.000001, max_value=1_000_000, required=False, label="Time per event (s)",
        help_text="Used for the rounds planned from now on. Jobs get three times this.",
    )  # fmt: skip
    retry_count = serializers.IntegerField(min_value=0, max_value=20, required=False, label="Retries per job")
    error_hold_threshold = serializers.FloatField(
        min_value=0.001, max_value=1, required=False, label="Hold threshold",
        help_text="The share of failed groups above which the request is held again; 0.2 is 20 %.",
    )  # fmt: skip


class ReleaseInput(ReasonInput, ReleaseChanges):
    """Let a held request go on, with what changes."""

    dry_run = serializers.BooleanField(default=False, help_text=DRY_RUN_HELP)


def modifications_of(body: Mapping[str, Any]) -> Modifications:
    """Return the changes of a validated release as one value."""
    values: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value for name, value in body.items()
    }
    return Modifications(**values)


class ChangeInput(ReasonInput):
    """What may be changed while a request lives."""

    elsewhere: ClassVar[dict[str, str]] = {
        "status": "A status is not set but reached: use /release, /stop or /abort.",
        "submitted_by": "The owner of a request does not change.",
        "requestor": "The owner of a request does not change.",
    }
    priority = serializers.IntegerField(min_value=0, max_value=1_000_000, required=False)
    site_whitelist = _sites("Allowed sites", "Site names separated by spaces. Leave empty for all sites.")
    site_blacklist = _sites("Excluded sites", "Site names separated by spaces.")
    memory_mb = serializers.IntegerField(
        min_value=1, max_value=1_000_000, required=False, allow_null=True, label="Memory per job (MB)",
        help_text="Outranks measurements. Leave empty (null) to use measurements.",
    )  # fmt: skip
    category_throttles = serializers.DictField(
        child=serializers.IntegerField(min_value=1, max_value=100_000), required=False, allow_empty=False,
        label="Throttles",
        help_text="Most running at a time: Processing, Merge and Cleanup jobs of a group, MergeGroup"
        " groups; for example Processing=50 MergeGroup=10.",
    )  # fmt: skip
    document = serializers.DictField(
        required=False,
        allow_empty=False,
        help_text="Drafts only: any fields of the document.",
        style={"only_json": True},
    )
    dry_run = serializers.BooleanField(default=False, help_text=DRY_RUN_HELP)

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        """A change that changes nothing is a slip."""
        if set(attrs) == {"reason", "dry_run"}:
            raise serializers.ValidationError({"body": "Name at least one thing to change."})
        return attrs


class LimitsInput(ReasonInput):
    """Which limits to change; what is absent stays."""

    max_active_dags = serializers.IntegerField(
        min_value=0, max_value=100_000, required=False, label="DAGs at a time"
    )
    paused = serializers.BooleanField(required=False, label="Pause admission")
    pause_reason = serializers.CharField(max_length=1000, required=False)
    storage_critical_fraction = serializers.FloatField(
        min_value=0.01, max_value=1, required=False, label="Storage limit",
        help_text="Admission closes above this share of storage in use; 0.9 is 90 %.",
    )  # fmt: skip

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        """A change that changes nothing is a slip."""
        if set(attrs) == {"reason"}:
            raise serializers.ValidationError({"body": "Name at least one limit to change."})
        return attrs
