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


class StopInput(ReasonInput):
    """Stop cleanly."""

    hold = serializers.BooleanField(default=False, help_text="Stay held afterwards instead of resuming.")


class RestartInput(ReasonInput):
    """End the request and submit its next version."""

    cleanup_policy = serializers.ChoiceField(
        choices=choices(CleanupPolicy), required=False,
        help_text="What becomes of the old outputs once the new version is complete.",
    )  # fmt: skip
    dry_run = serializers.BooleanField(default=False, help_text="Only tell what would happen.")


class ShareInput(ReasonInput):
    """Allow a request to write into datasets of others."""

    datasets = serializers.ListField(
        child=serializers.CharField(validators=[LegalName(Name.DATASET.value)]), max_length=100,
        required=False, help_text="Which of its output datasets; all of them if left out.",
    )  # fmt: skip


class OptionalReason(Input):
    """A reason in the body of a DELETE; it may come in the query instead."""

    reason = serializers.CharField(max_length=1000, required=False)


def _sites() -> Any:
    name = serializers.CharField(validators=[LegalName(Name.SITE.value)])
    return serializers.ListField(child=name, max_length=500, required=False)


class ReleaseChanges(Input):
    """What may change with a release."""

    site_bans = _sites()
    excluded_files = serializers.ListField(
        child=serializers.CharField(validators=[LegalName(Name.LFN.value)]), max_length=10_000, required=False
    )
    memory_mb = serializers.IntegerField(min_value=1, max_value=1_000_000, required=False)
    time_per_event_sec = serializers.FloatField(
        min_value=0.000001, max_value=1_000_000, required=False,
        help_text="What one event takes, in rounds planned from then on.",
    )  # fmt: skip
    retry_count = serializers.IntegerField(min_value=0, max_value=20, required=False)
    error_hold_threshold = serializers.FloatField(min_value=0.001, max_value=1, required=False)


class ReleaseInput(ReasonInput, ReleaseChanges):
    """Let a held request go on, with what changes."""

    dry_run = serializers.BooleanField(default=False, help_text="Only tell what would happen.")


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
    site_whitelist = _sites()
    site_blacklist = _sites()
    memory_mb = serializers.IntegerField(
        min_value=1, max_value=1_000_000, required=False, allow_null=True,
        help_text="An operator decision: it outranks measurements until it is set to null.",
    )  # fmt: skip
    category_throttles = serializers.DictField(
        child=serializers.IntegerField(min_value=1, max_value=100_000), required=False, allow_empty=False,
        help_text="Most jobs at a time: Processing, Merge, Cleanup in a group; MergeGroup groups.",
    )  # fmt: skip
    document = serializers.DictField(
        required=False, allow_empty=False, help_text="Drafts only: any fields of the document."
    )
    dry_run = serializers.BooleanField(default=False, help_text="Only say what the change would reach.")

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        """A change that changes nothing is a slip."""
        if set(attrs) == {"reason", "dry_run"}:
            raise serializers.ValidationError({"body": "Name at least one thing to change."})
        return attrs
