"""Checks of `manage.py check --deploy` that query the pool."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.core.checks import CheckMessage, Error, Info, Tags, register

from condor.schedd import find_job_owner
from wms2_project.checks import JOB_USER_HINT, JOB_USER_ID, own_account
from wms2_project.errors import ScheddUnreachable
from wms2_project.settings.environment import LAB


@register(Tags.security, deploy=True)
def check_job_owner(app_configs: Any, **kwargs: Any) -> list[CheckMessage]:
    """Check at each schedd that jobs do not run as WMS2's own account, whose secrets they could read."""
    if LAB or settings.JOB_USERS:
        return []
    found: list[CheckMessage] = []
    for name in settings.SCHEDDS or [""]:
        place = name or "the pool's schedd"
        try:
            owner = find_job_owner(name, timeout_sec=settings.SCHEDD_TIMEOUT_SEC)
        except ScheddUnreachable as error:
            found.append(Info(f"The owner of jobs was not checked: {place}: {error}", id="wms2.I002"))
            continue
        if owner == own_account():
            what = f"Jobs at {place} belong to {owner}, the account that WMS2 runs as."
            found.append(Error(what, hint=JOB_USER_HINT, id=JOB_USER_ID))
    return found
