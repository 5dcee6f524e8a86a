"""Paths of the sites."""

from __future__ import annotations

from django.urls import path

from sites_app.api.views import BanView, DrainView, EnableView, SiteListView, SiteView

urlpatterns = [
    path("sites", SiteListView.as_view(), name="site-list"),
    path("sites/<slug:name>", SiteView.as_view(), name="site-detail"),
    path("sites/<slug:name>/drain", DrainView.as_view(), name="site-drain"),
    path("sites/<slug:name>/enable", EnableView.as_view(), name="site-enable"),
    path("sites/<slug:name>/ban", BanView.as_view(), name="site-ban"),
]
