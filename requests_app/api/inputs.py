"""Inputs of requests and limits: shape and grammar. The services check the meaning."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, ClassVar

from rest_framework import serializers

from dags_app.services.decisions import COLUMNS
from requests_app.documents.parsers import Kind, Refused
from requests_app.documents.table import DOCUMENT, EDITABLE, FIELD
from requests_app.services.failing_files import STATES
from requests_app.services.importing import BESIDE, REQMGR2
from requests_app.services.quotas import LIMITS
from requests_app.services.releasing import Modifications
from requests_app.states import CleanupPolicy, QuotaScope, StoragePolicy
from wms2_project.api.views import ChangesInput, Input, ReasonInput
from wms2_project.fields import LegalName, choices
from wms2_project.grammar import Name

EXAMPLE: dict[str, Any] = json.loads((Path(__file__).parent / "example.json").read_text())
_DRAFT = {"type": "boolean", "description": "Keep it as a draft until it is submitted."}


def field_schema(name: str) -> dict[str, Any]:
    """Return type, limits and description of a document field as OpenAPI writes them."""
    field = FIELD[name]
    other = f" ReqMgr2: {field.reqmgr2}." if field.reqmgr2 else ""
    return {**field.kind.schema, "description": field.description + other}


IMPORT_SCHEMA: dict[str, Any] = {
    "oneOf": [
        {
            "type": "object",
            "title": "ImportByName",
            "description": "Fetch the document of this name from ReqMgr2.",
            "required": ["request_name", "source"],
            "properties": {
                **{name: field_schema(name) for name in ("request_name", *BESIDE)},
                "source": {"type": "string", "enum": [REQMGR2]},
                "draft": _DRAFT,
            },
            "additionalProperties": False,
        },
        {
            "type": "object",
            "title": "RequestDocument",
            "description": "A whole request document, with ReqMgr2's names or ours. Names that are neither"
            " are passed to the payload, unless they seem to misspell one; see docs/request-fields.md.",
            "properties": {**{one.name: field_schema(one.name) for one in DOCUMENT}, "draft": _DRAFT},
            "additionalProperties": True,
            "example": EXAMPLE,
        },
    ]
}


def serializer_field(name: str, **options: Any) -> Any:
    """Return the API field of a document field: the table has its type, limits, label and help."""
    field = FIELD[name]
    hint = {"array": " Separated by spaces.", "object": " For example Processing=50 MergeGroup=10."}
    text = field.description + hint.get(field.kind.schema["type"], "")
    text += " Leave empty (null) to use measurements." if options.get("allow_null") else ""
    shown = {"required": False, "label": field.label or None, "help_text": text}
    return _of_kind(field.kind, **shown | options)


def _of_kind(kind: Kind[Any], **options: Any) -> Any:
    limits = kind.schema
    if limits["type"] == "integer":
        return serializers.IntegerField(min_value=limits["minimum"], max_value=limits["maximum"], **options)
    if limits["type"] == "number":
        return serializers.FloatField(max_value=limits["maximum"], validators=[_above_zero], **options)
    if limits["type"] == "array" and kind.entry is not None:
        return serializers.ListField(child=_of_kind(kind.entry), max_length=limits["maxItems"], **options)
    if limits["type"] == "object":
        most = max(one["maximum"] for one in limits["properties"].values())
        child = serializers.IntegerField(min_value=1, max_value=most)
        return serializers.DictField(child=child, allow_empty=False, validators=[_legal(kind)], **options)
    return serializers.CharField(validators=[_legal(kind)], **options)


def _above_zero(value: float) -> None:
    if value <= 0:
        raise serializers.ValidationError("This must be above 0.")


def _legal(kind: Kind[Any]) -> Callable[[object], None]:
    def check(value: object) -> None:
        try:
            kind(value)
        except Refused as refused:
            raise serializers.ValidationError(str(refused)) from None

    return check


class ImportByName(Input):
    """Fetch the document of this name from ReqMgr2."""

    request_name = serializer_field("request_name", required=True)
    source = serializers.ChoiceField(choices=[REQMGR2])  # type: ignore[assignment]
    correlation_id = serializer_field("correlation_id")
    callback_url = serializer_field("callback_url")
    submitted_by = serializer_field("submitted_by")
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


class FailFilesInput(ReasonInput):
    """Exclude input files."""

    state = serializers.ChoiceField(
        choices=[(one, one) for one in STATES], required=False, allow_blank=True, default="",
        label="State of the files",
        help_text="Exclude all files in this state; `failed`: attempted as often as allowed.",
    )  # fmt: skip
    lfns = serializers.ListField(
        child=serializers.CharField(validators=[LegalName(Name.LFN.value)]), max_length=10_000,
        required=False, default=list, label="Files", help_text="Names of files instead of a state.",
    )  # fmt: skip


class ReleaseChanges(Input):
    """Changes that a release may make."""

    site_bans = _of_kind(
        FIELD["site_blacklist"].kind, required=False, label="Sites to ban",
        help_text="Site names separated by spaces. They are banned for this request.",
    )  # fmt: skip
    excluded_files = serializers.ListField(
        child=serializers.CharField(validators=[LegalName(Name.LFN.value)]), max_length=10_000,
        required=False, label="Files to exclude", help_text="LFNs separated by spaces.",
    )  # fmt: skip
    memory_mb = serializer_field("memory_mb")
    time_per_event_sec = serializer_field(
        "time_per_event_sec",
        help_text="Used for the rounds planned from now on. Jobs get three times this.",
    )
    retry_count = serializers.IntegerField(min_value=0, max_value=20, required=False, label="Retries per job")
    error_hold_threshold = serializers.FloatField(
        min_value=0.001, max_value=1, required=False, label="Hold threshold",
        help_text="The share of failed groups above which the request is held again; 0.2 is 20 %.",
    )  # fmt: skip


class ReleaseInput(ReasonInput, ReleaseChanges):
    """Release a held request, with changes."""

    dry_run = serializers.BooleanField(default=False, help_text=DRY_RUN_HELP)


def modifications_of(body: Mapping[str, Any]) -> Modifications:
    """Return the changes of a validated release as one value."""
    values: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value for name, value in body.items()
    }
    return Modifications(**values)


class ChangeInput(ChangesInput):
    """Changes of a request that has not ended."""

    elsewhere: ClassVar[dict[str, str]] = {
        "status": "A status is not set but reached: use /release, /stop or /abort.",
        "submitted_by": "The owner of a request does not change.",
        "requestor": "The owner of a request does not change.",
    }
    document = serializers.DictField(
        required=False,
        allow_empty=False,
        help_text="Drafts only: any fields of the document.",
        style={"only_json": True},
    )
    dry_run = serializers.BooleanField(default=False, help_text=DRY_RUN_HELP)

    def get_fields(self) -> dict[str, Any]:
        """Return the editable fields of the table with those declared here. Null withdraws a decision."""
        editable = {one.name: serializer_field(one.name, allow_null=one.name in COLUMNS) for one in EDITABLE}
        return {**editable, **super().get_fields()}


class LimitsInput(ChangesInput):
    """Limits to change. Absent limits are unchanged."""

    max_active_dags = serializers.IntegerField(
        min_value=0, max_value=100_000, required=False, label="DAGs at a time"
    )
    paused = serializers.BooleanField(required=False, label="Pause admission")
    pause_reason = serializers.CharField(max_length=1000, required=False)
    storage_critical_fraction = serializers.FloatField(
        min_value=0.01, max_value=1, required=False, label="Storage limit",
        help_text="Admission closes above this share of storage in use; 0.9 is 90 %.",
    )  # fmt: skip
    storage_policy = serializers.ChoiceField(
        choices=choices(StoragePolicy), required=False, label="Above the storage limit",
        help_text="close: admit no further request there. hold: also hold, at each check, the active request"
        " of the lowest rank that writes there.",
    )  # fmt: skip
    priority_weight = serializers.FloatField(
        min_value=0, max_value=1e6, required=False, help_text="Rank per unit of priority."
    )
    ageing_weight = serializers.FloatField(
        min_value=0, max_value=1e6, required=False, help_text="Rank per hour in the queue; 0 for no ageing."
    )
    retry_weight = serializers.FloatField(
        min_value=0, max_value=1e6, required=False, help_text="Rank per rescue or resume."
    )


class QuotaKey(Input):
    """A requestor or group."""

    scope = serializers.ChoiceField(choices=choices(QuotaScope), label="Quota type")
    name = serializers.CharField(
        max_length=100, help_text="Name of an account or group. Use * for the default quota."
    )


class QuotaInput(ChangesInput):
    """Limits to change. Absent limits are unchanged; null resets a limit to the default."""

    def get_fields(self) -> dict[str, Any]:
        limits = {
            name: serializers.IntegerField(
                min_value=0, max_value=limit.most, required=False, allow_null=True, help_text=limit.help
            )
            for name, limit in LIMITS.items()
        }
        return {**super().get_fields(), **limits}
