"""Set the home page of the admin site, whose login, menu and theme all pages share."""

from __future__ import annotations

from django.contrib import admin

admin.site.index_template = "console/home.html"
admin.site.index_title = "Home"
