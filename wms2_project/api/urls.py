"""Endpoints of the kernel: probes, account, audit, and the description of the API."""

from __future__ import annotations

from django.urls import path

from wms2_project.api import access
from wms2_project.api.audit import AuditListView
from wms2_project.api.docs import DocsView, SchemaView
from wms2_project.api.reads import read_paths
from wms2_project.api.system import HealthView, LivezView, ReadyzView

urlpatterns = [
    path("livez", LivezView.as_view(), name="livez"),
    path("readyz", ReadyzView.as_view(), name="readyz"),
    path("health", HealthView.as_view(), name="health"),
    *read_paths(access),
    path("tokens", access.TokenListView.as_view(), name="token-list"),
    path("tokens/<uuid:token_id>", access.TokenView.as_view(), name="token-detail"),
    path("identities", access.IdentityListView.as_view(), name="identity-list"),
    path("identities/<int:identity_id>", access.IdentityView.as_view(), name="identity-detail"),
    path("audit", AuditListView.as_view(), name="audit-list"),
    path("schema", SchemaView.as_view(), name="schema"),
    path("docs", DocsView.as_view(), name="docs"),
]
