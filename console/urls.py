"""URLs of the console's own pages, below /admin/console/. Every view is behind the console's login."""

from __future__ import annotations

from django.contrib import admin
from django.urls import path

from console import pages
from console.health.views import flower_view
from console.search.views import search_view
from console.submit.views import check_view, submit_page

app_name = "console"
urlpatterns = [
    *(page.path() for page in pages.PAGES),
    path("submit", admin.site.admin_view(submit_page), name="submit"),
    path("submit/check", admin.site.admin_view(check_view), name="submit-check"),
    path("flower", admin.site.admin_view(flower_view), name="flower"),
    path("search", admin.site.admin_view(search_view), name="search"),
    path("fragments/<slug:name>", admin.site.admin_view(pages.fragment_view), name="fragment"),
]
