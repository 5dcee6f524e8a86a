"""Audit of changes."""

from __future__ import annotations

from typing import Any, ClassVar

from django_filters import rest_framework as filters
from rest_framework import serializers

from wms2_project.access.audit import shown_detail
from wms2_project.access.roles import Role, role_of
from wms2_project.api.views import ListView
from wms2_project.models import AuditEvent


class AuditRow(serializers.ModelSerializer[AuditEvent]):
    """One audited change."""

    detail = serializers.SerializerMethodField(
        help_text="Details of the change. Identities are visible to admins only."
    )

    class Meta:
        model = AuditEvent
        fields: tuple[str, ...] = (
            "id", "at", "actor", "action", "target", "reason", "detail", "request_id", "number",
        )  # fmt: skip
        read_only_fields = fields
        extra_kwargs: ClassVar[dict[str, Any]] = {
            "number": {"help_text": "Number in the audit chain; null until sealed."},
            "request_id": {"help_text": "Id of the HTTP call that caused the change."},
        }

    def get_detail(self, event: AuditEvent) -> dict[str, Any]:
        """Return the details visible to the caller."""
        return shown_detail(event, to_admin=role_of(self.context["request"].user) >= Role.ADMIN)


class AuditFilter(filters.FilterSet):  # type: ignore[misc]
    """Filters of the audit."""

    actor = filters.CharFilter(label="Actor, such as user:ana.")
    action = filters.CharFilter()
    target = filters.CharFilter(
        label="Target of the change: a request, a site, the token of a DAG, person ana, …"
    )
    after = filters.IsoDateTimeFilter(field_name="at", lookup_expr="gte")
    before = filters.IsoDateTimeFilter(field_name="at", lookup_expr="lt")


class AuditListView(ListView):
    """The audit, newest first."""

    operation_id = "audit_list"
    roles: ClassVar[dict[str, Role]] = {"GET": Role.OPERATOR}
    queryset = AuditEvent.objects.all()
    serializer_class = AuditRow
    filterset_class = AuditFilter
    orders: ClassVar[dict[str, tuple[str, ...]]] = {"at": ("at", "id")}
    order: ClassVar[str] = "-at"
