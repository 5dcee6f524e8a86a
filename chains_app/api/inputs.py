"""Inputs of operations on templates, chains and announcements."""

from __future__ import annotations

from typing import Any

from rest_framework import serializers

from chains_app.cwl.documents import MAX_BYTES
from chains_app.masks import MAX_LENGTH
from chains_app.models import MAX_TEMPLATE_NAME, MAX_UID
from chains_app.states import CleanupStrategy
from wms2_project.api.views import ChangesInput, Input, ReasonInput
from wms2_project.operations.forms import FILE


def _name(**options: Any) -> serializers.CharField:
    help_text = "Letters, digits and `_`. An existing name creates the next version."
    return serializers.CharField(max_length=MAX_TEMPLATE_NAME, help_text=help_text, **options)


class _Settings(Input):
    """Settings of a template."""

    mask = serializers.CharField(
        max_length=MAX_LENGTH, required=False, allow_blank=True, label="Dataset mask",
        help_text="RE2 regular expression searched in dataset names. Empty: chains start by name only.",
    )  # fmt: skip
    confirm = serializers.BooleanField(
        required=False, label="Accept a mask that matches everything",
        help_text="Needed for a mask that matches every dataset.",
    )  # fmt: skip
    cleanup = serializers.ChoiceField(
        choices=list(CleanupStrategy), required=False,
        help_text="When intermediates are removed: never (keep), once all finals are complete (safe), or each"
        " after its last consumer (greedy).",
    )  # fmt: skip
    keep_logs = serializers.BooleanField(required=False, help_text="Keep the log datasets at cleanup.")
    delete_input = serializers.BooleanField(
        required=False, help_text="Also delete WMS2's own rules of the first input when the chain ends."
    )
    description = serializers.CharField(
        max_length=4000, required=False, allow_blank=True, help_text="Description for operators."
    )


class TemplateInput(_Settings, ReasonInput):
    """A new version of a template."""

    name = _name()
    document = serializers.CharField(
        max_length=MAX_BYTES, trim_whitespace=False, label="CWL document", style={FILE: True},
        help_text="CWL v1.2 Workflow without references to other documents.",
    )  # fmt: skip


class CloneInput(_Settings, ReasonInput):
    """The name of the copy, and settings that differ."""

    name = _name()


class TemplateChanges(_Settings, ChangesInput):
    """Settings to change. The document of a version never changes."""


class CheckInput(Input):
    """A document, and a mask with example names, to check without storing anything."""

    document = serializers.CharField(
        max_length=MAX_BYTES, trim_whitespace=False, allow_blank=True, default=""
    )
    mask = serializers.CharField(max_length=MAX_LENGTH, allow_blank=True, default="")
    examples = serializers.ListField(
        child=serializers.CharField(max_length=500), max_length=100, default=list,
        help_text="Dataset names to try the mask on.",
    )  # fmt: skip


class StartInput(ReasonInput):
    """A dataset and parameters for the actual version of a template."""

    dataset = serializers.CharField(
        max_length=500, required=False, help_text="Dataset for the first Directory input."
    )
    parameters = serializers.DictField(required=False, help_text="Values of the other inputs.")
    priority = serializers.IntegerField(
        min_value=0, max_value=1_000_000, required=False, help_text="Priority of its requests."
    )


class StepInput(ReasonInput):
    """The step to act on."""

    step = serializers.CharField(
        max_length=400, help_text="Name of the step as the chain shows it, such as `skim` or `skim[2]`."
    )


class AnnouncementInput(Input):
    """An announced dataset."""

    uid = serializers.CharField(
        max_length=MAX_UID,
        required=False,
        help_text="Identifier of the announcement. Repeating an identifier has no effect.",
    )
    id = serializers.CharField(max_length=MAX_UID, required=False, help_text="Alias of `uid`.")
    name = serializers.CharField(max_length=500, required=False, help_text="Name of the dataset.")
    template = serializers.CharField(
        max_length=200, required=False, help_text="Template to start, regardless of its mask."
    )
    parameters = serializers.DictField(required=False, help_text="Values of inputs of the template.")
    priority = serializers.IntegerField(
        min_value=0, max_value=1_000_000, required=False, help_text="Priority of the requests."
    )
    correlation_id = serializers.CharField(
        max_length=200, required=False, help_text="Identifier in the system of the caller."
    )
    callback_url = serializers.CharField(
        max_length=500, required=False, help_text="URL that is notified when a chain ends."
    )
    reason = serializers.CharField(
        max_length=1000, required=False, help_text="Reason, recorded in the audit; `announced` if absent."
    )

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        """Accept `id` as an alias of `uid`."""
        other = attrs.pop("id", None)
        attrs["uid"] = attrs.get("uid") or other
        if not attrs["uid"]:
            raise serializers.ValidationError({"uid": "This field is required."})
        return attrs
