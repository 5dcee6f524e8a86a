"""The settings page: every setting by concern. Values are those of the web process."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import groupby
from typing import Any

from console.fragments import Fragment, about
from console.page import Page
from console.settings_page.declarations import settings
from wms2_project.access.roles import Role
from wms2_project.changes import Topic


def _read(_of: str, _role: Role) -> Mapping[str, Any]:
    found = settings()
    return {
        "concerns": [(concern, list(rows)) for concern, rows in groupby(found, key=lambda one: one.concern)],
        "changed": sum(one.source == "environment" for one in found),
        "count": len(found),
    }


SETTINGS = Page(
    fragment=Fragment(
        name="settings",
        template="console/settings/fragment.html",
        read=_read,
        topics=about(Topic.AUDIT),
        role=Role.OPERATOR,
    ),
    title="Settings",
    about="Every setting, its value, source and meaning",
)
