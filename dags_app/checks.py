"""System checks of the payloads and the pool, run at start and by `manage.py check --deploy`."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.core.checks import CheckMessage, Error, Info, Tags, register

from condor.schedd import find_job_owner
from sandbox.registry import load_registry
from wms2_project.checks import JOB_USER_HINT, JOB_USER_ID, STARTUP, own_account
from wms2_project.errors import ScheddUnreachable


@register(STARTUP)
def check_payloads(app_configs: Any, **kwargs: Any) -> list[CheckMessage]:
    """Report payload plugins that cannot be imported, and a default payload that no job can run."""
    try:
        kinds = sorted(load_registry(tuple(settings.PAYLOAD_PLUGINS)).kinds)
    except (ImportError, AttributeError) as error:
        what, hint = f"WMS2_PAYLOAD_PLUGINS: {error}.", "Name packages with KINDS and MERGE_TOOLS, or none."
        return [Error(what, hint=hint, id="wms2.E019")]
    if settings.DEFAULT_PAYLOAD in ("", *kinds):
        return []
    what = f"WMS2_DEFAULT_PAYLOAD is {settings.DEFAULT_PAYLOAD}, which no job can run."
    return [Error(what, hint=f"Leave it empty or use one of {', '.join(kinds)}.", id="wms2.E019")]


@register(Tags.security, deploy=True)
def check_job_owner(app_configs: Any, **kwargs: Any) -> list[CheckMessage]:
    """Check at each schedd that jobs do not run as WMS2's own account, whose secrets they could read."""
    if settings.LAB or settings.JOB_USERS:
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
