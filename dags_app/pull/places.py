"""Sets of places of a pull workflow's files.

A file without a set is not lent. Whatever stores or changes locations leaves the set empty, and `sync_places`
gives every unfinished file the set of its locations.
"""

from __future__ import annotations

from typing import Any

from django.db import connection

from dags_app.models import Workflow
from dags_app.states import UNFINISHED_FILE

_ADD_SETS = """
    INSERT INTO dags_app_placeset (workflow_id, storages)
    SELECT DISTINCT f.workflow_id, f.locations
      FROM dags_app_inputfile f
     WHERE f.workflow_id = %(workflow)s AND f.state = ANY(%(states)s) AND f.place_set_id IS NULL
        ON CONFLICT DO NOTHING"""
_PLACE_FILES = """
    UPDATE dags_app_inputfile AS f SET place_set_id = p.id
      FROM dags_app_placeset p
     WHERE f.workflow_id = %(workflow)s AND f.state = ANY(%(states)s) AND f.place_set_id IS NULL
       AND p.workflow_id = f.workflow_id AND p.storages = f.locations"""


def sync_places(*, workflow: Workflow) -> int:
    """Give every unfinished file of the workflow its set of places; return how many had none."""
    values: dict[str, Any] = {"workflow": workflow.pk, "states": sorted(UNFINISHED_FILE)}
    with connection.cursor() as cursor:
        cursor.execute(_ADD_SETS, values)
        cursor.execute(_PLACE_FILES, values)
        return int(cursor.rowcount)
