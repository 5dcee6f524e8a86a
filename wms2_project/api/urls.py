"""The kernel's own endpoints: probes, one's own access, the audit, and the description of the API."""

from __future__ import annotations

from django.urls import path

from wms2_project.api.access import MeView, TokenListView, TokenView
from wms2_project.api.audit import AuditListView
from wms2_project.api.docs import DocsView, SchemaView
from wms2_project.api.system import HealthView, LivezView, ReadyzView

urlpatterns = [
    path("livez", LivezView.as_view(), name="livez"),
    path("readyz", ReadyzView.as_view(), name="readyz"),
    path("health", HealthView.as_view(), name="health"),
    path("me", MeView.as_view(), name="me"),
    path("tokens", TokenListView.as_view(), name="token-list"),
    path("tokens/<uuid:token_id>", TokenView.as_view(), name="token-detail"),
    path("audit", AuditListView.as_view(), name="audit-list"),
    path("schema", SchemaView.as_view(), name="schema"),
    path("docs", DocsView.as_view(), name="docs"),
]
