"""Facts of output datasets, as templates name them: events, files, size_bytes, runs, blocks, dataset."""

from __future__ import annotations

from typing import Any

from django.db import connection

from chains_app.cwl.graph import Leaf
from chains_app.cwl.types import ToolOutput
from dags_app.models import Workflow

_FACTS = """
SELECT d.dataset_name, count(DISTINCT f.id), coalesce(sum(f.events), 0)::bigint,
       coalesce(sum(f.size_bytes), 0)::bigint,
       coalesce(array_agg(DISTINCT b.block_name) FILTER (WHERE f.id IS NOT NULL), '{}')
  FROM outputs_app_outputdataset d
  LEFT JOIN outputs_app_outputblock b ON b.dataset_id = d.id AND b.status <> 'invalidated'
  LEFT JOIN outputs_app_outputfile f ON f.block_id = b.id
 WHERE d.workflow_id = %s
 GROUP BY d.dataset_name"""
_RUNS = """
SELECT d.dataset_name, array_agg(DISTINCT (part ->> 0)::bigint ORDER BY (part ->> 0)::bigint)
  FROM outputs_app_outputdataset d
  JOIN outputs_app_outputblock b ON b.dataset_id = d.id AND b.status <> 'invalidated'
  JOIN outputs_app_outputfile f ON f.block_id = b.id
  CROSS JOIN LATERAL jsonb_array_elements(f.lumis) AS part
 WHERE d.workflow_id = %s
 GROUP BY d.dataset_name"""


def dataset_facts(workflow: Workflow) -> dict[str, dict[str, Any]]:
    """Return the facts of every dataset a workflow has written, by name."""
    with connection.cursor() as cursor:
        cursor.execute(_FACTS, [workflow.pk])
        found = {
            name: {
                "dataset": name, "files": files, "events": int(events), "size_bytes": int(size),
                "blocks": sorted(blocks), "runs": [],
            }
            for name, files, events, size, blocks in cursor.fetchall()
        }  # fmt: skip
        cursor.execute(_RUNS, [workflow.pk])
        for name, runs in cursor.fetchall():
            found[name]["runs"] = list(runs)
    return found


def port_values(leaf: Leaf, names: dict[str, str], workflow: Workflow) -> dict[str, Any]:
    """Return the values of a step's outputs. `names` are its datasets by port."""
    tool = leaf.step.tool
    if tool is None:
        return {}
    facts = dataset_facts(workflow) if any(one.fact for one in tool.outputs) else {}
    return {one.id: names[one.id] if not one.fact else _fact(one, names, facts) for one in tool.outputs}


def _fact(output: ToolOutput, names: dict[str, str], facts: dict[str, dict[str, Any]]) -> Any:
    empty = {"dataset": names[output.of], "files": 0, "events": 0, "size_bytes": 0, "blocks": [], "runs": []}
    value = facts.get(names[output.of], empty)[output.fact]
    counts = isinstance(value, list) and not any(kind.endswith("[]") for kind in output.types)
    return len(value) if counts else value
