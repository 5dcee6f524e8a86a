"""The audit: who changed what, when and why."""

from __future__ import annotations

from typing import Any, ClassVar

from django_filters import rest_framework as filters
from drf_spectacular.utils import extend_schema, extend_schema_view
from rest_framework import serializers

from wms2_project.api.roles import Role, role_of
from wms2_project.api.views import ListView
from wms2_project.audit import shown_detail
from wms2_project.models import AuditEvent


class AuditRow(serializers.ModelSerializer[AuditEvent]):
    """One change a person made."""

    detail = serializers.SerializerMethodField(help_text="What it was about. Identities are for admins.")

    class Meta:
        model = AuditEvent
        fields: tuple[str, ...] = (
            "id", "at", "actor", "action", "target", "reason", "detail", "request_id", "number",
        )  # fmt: skip
        read_only_fields = fields
        extra_kwargs: ClassVar[dict[str, Any]] = {
            "number": {"help_text": "Its place in the audit chain; null until it is sealed."},
            "request_id": {"help_text": "The id of the HTTP call that caused it."},
        }

    def get_detail(self, event: AuditEvent) -> dict[str, Any]:
        """What the caller may know of it."""
        return shown_detail(event, to_admin=role_of(self.context["request"].user) >= Role.ADMIN)


class AuditFilter(filters.FilterSet):  # type: ignore[misc]
    """Which changes."""

    actor = filters.CharFilter(label="Such as user:ana.")
    action = filters.CharFilter()
    target = filters.CharFilter(label="What was changed: a request, a site, a DAG's token, person ana, …")
    after = filters.IsoDateTimeFilter(field_name="at", lookup_expr="gte")
    before = filters.IsoDateTimeFilter(field_name="at", lookup_expr="lt")


@extend_schema_view(get=extend_schema(operation_id="audit_list", description="The audit, newest first."))
class AuditListView(ListView):
    """The audit, newest first."""

    roles: ClassVar[dict[str, Role]] = {"GET": Role.OPERATOR}
    queryset = AuditEvent.objects.all()
    serializer_class = AuditRow
    filterset_class = AuditFilter
    orders: ClassVar[dict[str, tuple[str, ...]]] = {"at": ("at", "id")}
    order: ClassVar[str] = "-at"
