"""Rows of templates, announcements, chains and their events."""

from __future__ import annotations

from typing import Any

from rest_framework import serializers

from chains_app.models import Announcement, Chain, ChainDataset, ChainEvent, ChainStep, Template
from chains_app.states import DatasetStatus, StepStatus
from wms2_project.fields import choices

STEP_STATUSES = choices(StepStatus)
DATASET_STATUSES = choices(DatasetStatus)


class TemplateRow(serializers.ModelSerializer[Template]):
    """A version of a template."""

    class Meta:
        model = Template
        fields: tuple[str, ...] = (
            "name", "version", "status", "status_since", "description", "mask", "cleanup", "keep_logs",
            "delete_input", "created_by", "created_at",
        )  # fmt: skip
        read_only_fields = fields


class TemplateDetail(TemplateRow):
    """A version of a template with its document and its steps in normal form."""

    workflow = serializers.JSONField(read_only=True)

    class Meta(TemplateRow.Meta):
        fields = (*TemplateRow.Meta.fields, "document", "workflow")
        read_only_fields = fields


class AnnouncementRow(serializers.ModelSerializer[Announcement]):
    """An announced dataset with its status and chains."""

    chains: Any = serializers.PrimaryKeyRelatedField(
        many=True, read_only=True, help_text="Chains it started."
    )
    parameters = serializers.JSONField(read_only=True)
    callback_url = serializers.CharField(read_only=True, help_text="Empty if there is none.")

    class Meta:
        model = Announcement
        fields: tuple[str, ...] = (
            "id", "uid", "dataset_name", "template_name", "parameters", "priority", "correlation_id",
            "callback_url", "actor", "status", "reason", "body", "received_at", "decided_at", "chains",
        )  # fmt: skip
        read_only_fields = fields


class ChainRow(serializers.ModelSerializer[Chain]):
    """A chain."""

    template = serializers.CharField(source="template.name", read_only=True)
    template_version = serializers.IntegerField(source="template.version", read_only=True)
    dataset_name = serializers.CharField(source="announcement.dataset_name", read_only=True)
    correlation_id = serializers.CharField(source="announcement.correlation_id", read_only=True)

    class Meta:
        model = Chain
        fields: tuple[str, ...] = (
            "id", "template", "template_version", "dataset_name", "correlation_id", "status", "status_since",
            "wait_reason", "created_at", "updated_at", "version",
        )  # fmt: skip
        read_only_fields = fields


class ChainStepRow(serializers.ModelSerializer[ChainStep]):
    """A call of a step."""

    name = serializers.CharField(source="__str__", read_only=True)
    request_status = serializers.CharField(source="request.status", default="", read_only=True)
    inputs = serializers.JSONField(read_only=True)
    outputs = serializers.JSONField(read_only=True)
    hold_evidence = serializers.JSONField(read_only=True)

    class Meta:
        model = ChainStep
        fields: tuple[str, ...] = (
            "name", "step", "index", "tries", "status", "status_since", "wait_reason", "hold_evidence",
            "request_name", "request_status", "inputs", "outputs", "approved_by", "started_at", "deadline_at",
        )  # fmt: skip
        read_only_fields = fields


class ChainDatasetRow(serializers.ModelSerializer[ChainDataset]):
    """A dataset of a chain."""

    producer = serializers.SerializerMethodField()

    class Meta:
        model = ChainDataset
        fields: tuple[str, ...] = (
            "dataset_name", "role", "port", "producer", "status", "status_since", "wait_reason",
            "removal_reason",
        )  # fmt: skip
        read_only_fields = fields

    def get_producer(self, row: ChainDataset) -> str:
        return _name_of(row.producer)


class ChainDetail(ChainRow):
    """A chain with its steps and datasets."""

    inputs = serializers.JSONField(read_only=True)
    hold_evidence = serializers.JSONField(read_only=True)
    steps = ChainStepRow(many=True, read_only=True)
    datasets = ChainDatasetRow(many=True, read_only=True)

    class Meta(ChainRow.Meta):
        fields = (*ChainRow.Meta.fields, "inputs", "hold_evidence", "steps", "datasets")
        read_only_fields = fields


class ChainEventRow(serializers.ModelSerializer[ChainEvent]):
    """An event in the history of a chain."""

    step = serializers.SerializerMethodField()
    detail = serializers.JSONField(read_only=True)

    class Meta:
        model = ChainEvent
        fields: tuple[str, ...] = (
            "id", "at", "kind", "step", "from_status", "to_status", "reason", "actor", "detail",
        )  # fmt: skip
        read_only_fields = fields

    def get_step(self, row: ChainEvent) -> str:
        return _name_of(row.step)


def _name_of(step: ChainStep | None) -> str:
    return "" if step is None else str(step)
