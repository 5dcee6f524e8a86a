"""The outputs page: a board of blocks by step, stuck rules, and the newest datasets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from django.db import connection
from django.db.models import Count
from django.utils import timezone

from console.fragments import Fragment, about
from console.page import Page
from outputs_app.models import OutputBlock, OutputDataset, RucioRule
from outputs_app.pipeline import MOVING, PIPELINE
from outputs_app.states import BlockStatus
from wms2_project.access.roles import Role
from wms2_project.changes import Topic

CARDS = 6  # oldest blocks of each step
SHOWN = 25
LINE = tuple(status for status in PIPELINE if status in MOVING and status is not BlockStatus.INVALIDATING)
ENDS = (BlockStatus.FAILED, BlockStatus.INVALIDATING)
# The oldest blocks of each status, by one scan per status of an index
_OLDEST = """
SELECT b.id, b.block_name, b.site, b.status, b.status_since, b.last_error, b.failing_since, w.request_name
  FROM unnest(%s::text[]) AS wanted(status)
 CROSS JOIN LATERAL (SELECT * FROM outputs_app_outputblock k WHERE k.status = wanted.status
                      ORDER BY k.failing_since NULLS LAST, k.status_since LIMIT %s) b
  JOIN outputs_app_outputdataset d ON d.id = b.dataset_id JOIN dags_app_workflow w ON w.id = d.workflow_id"""


@dataclass(frozen=True, slots=True)
class Lane:
    """One step of the pipeline with its oldest blocks."""

    status: BlockStatus
    step: str
    count: int
    failing: int
    blocks: list[dict[str, Any]]

    @property
    def label(self) -> str:
        return self.status.replace("_", " ")


def _read(_of: str, _role: Role) -> Mapping[str, Any]:
    shown = [*LINE, *ENDS]
    rows = OutputBlock.objects.filter(status__in=shown).order_by().values_list("status")
    counts = {
        status: (n, failing) for status, n, failing in rows.annotate(Count("id"), Count("failing_since"))
    }
    blocks = _oldest(shown)
    lanes = [
        Lane(status, str(PIPELINE[status].step or ""), *counts.get(status, (0, 0)), blocks.get(status, []))
        for status in shown
    ]
    stuck = RucioRule.objects.filter(state="STUCK", deleted_at__isnull=True).order_by("state_since")
    return {
        "lanes": [lane for lane in lanes if lane.status in LINE or lane.count],
        "stuck": stuck.select_related("block__dataset__workflow")[:SHOWN],
        "stuck_count": stuck.count(),
        "datasets": OutputDataset.objects.select_related("workflow").order_by("-created_at", "-id")[:SHOWN],
        "now": timezone.now(),
    }


def _oldest(statuses: list[BlockStatus]) -> dict[str, list[dict[str, Any]]]:
    found: dict[str, list[dict[str, Any]]] = {}
    with connection.cursor() as cursor:
        cursor.execute(_OLDEST, [[str(one) for one in statuses], CARDS])
        names = [column.name for column in cursor.description or ()]
        for row in cursor.fetchall():
            block = dict(zip(names, row, strict=True))
            found.setdefault(block["status"], []).append(block)
    return found


OUTPUTS = Page(
    fragment=Fragment(
        name="outputs", template="console/outputs/fragment.html", read=_read, topics=about(Topic.OUTPUTS)
    ),
    title="Outputs",
    about="Output blocks by step, stuck Rucio rules, datasets",
)
