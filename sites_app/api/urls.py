"""Paths of the sites."""

from __future__ import annotations

from django.urls import path

from sites_app.api.views import SiteListView, SiteView
from sites_app.operations import OPERATIONS
from wms2_project.operations.rest import operation_paths

urlpatterns = [
    path("sites", SiteListView.as_view(), name="site-list"),
    path("sites/<slug:name>", SiteView.as_view(), name="site-detail"),
    *operation_paths(OPERATIONS),
]
