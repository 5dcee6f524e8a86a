"""Operator decisions about a request, as one value for the API, the console and the next version."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from django.db import connection

from dags_app.models import Workflow
from dags_app.planning.types import SitePool
from dags_app.services import decisions
from dags_app.services.estimating import current_estimate
from sites_app.services.bans import carry_bans

# Decisions about the workflow `w` as one JSON value. At most 1000 excluded files are listed.
DECISIONS = f"""json_strip_nulls(json_build_object(
    {", ".join(f"'{name}', w.{column}" for name, column in decisions.COLUMNS.items())},
    'site_bans', (SELECT json_agg(site_id ORDER BY site_id) FROM sites_app_siteban
       WHERE workflow_id = w.id AND removed_at IS NULL AND expires_at > now()
         AND NOT starts_with(created_by, 'system:')),
    'excluded_files', (SELECT json_agg(lfn) FROM (SELECT lfn FROM dags_app_inputfile
       WHERE workflow_id = w.id AND state = 'excluded' AND excluded_by <> '' ORDER BY lfn LIMIT 1000) f)))"""  # noqa: S608 — ours


def decisions_of(workflow: Workflow) -> dict[str, Any]:
    """Return the operator decisions by name; undecided ones are absent."""
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT {DECISIONS} FROM dags_app_workflow w WHERE w.id = %s", [workflow.pk])  # noqa: S608 — ours
        return dict(cursor.fetchone()[0])


def carry_decisions(*, old: Workflow, new: Workflow, actor: str, reason: str, now: datetime) -> None:
    """Copy all decisions to the next version."""
    decisions.carry_over(old=old, new=new)
    carry_bans(old=old, new=new, actor=actor, reason=reason, now=now)


def memory_refusal(workflow: Workflow, memory_mb: int | None, pool: SitePool) -> dict[str, str]:
    """Return the error if no usable site has slots with this much memory."""
    if memory_mb is None or not pool.names:
        return {}
    per_core = memory_mb / current_estimate(workflow).cores
    return (
        {} if pool.offering(per_core) else {"memory_mb": f"no usable site offers {per_core:.0f} MB per core"}
    )
