"""Ancestry of datasets: which chains led to a dataset, and of which templates."""

from __future__ import annotations

from django.db import connection

# From the dataset to the chains that produced it, to their announced datasets, and so on; each chain once.
_ANCESTORS = """
WITH RECURSIVE ancestor(chain_id) AS (
    SELECT d.chain_id FROM chains_app_chaindataset d
     WHERE d.dataset_name = %s AND d.producer_id IS NOT NULL
     UNION
    SELECT p.chain_id
      FROM ancestor a
      JOIN chains_app_chaindataset i ON i.chain_id = a.chain_id AND i.producer_id IS NULL
      JOIN chains_app_chaindataset p ON p.dataset_name = i.dataset_name AND p.producer_id IS NOT NULL)
SELECT DISTINCT t.name
  FROM ancestor a
  JOIN chains_app_chain c ON c.id = a.chain_id
  JOIN chains_app_template t ON t.id = c.template_id"""


def ancestor_templates(dataset_name: str) -> frozenset[str]:
    """Return the names of the templates whose chains led to the dataset."""
    with connection.cursor() as cursor:
        cursor.execute(_ANCESTORS, [dataset_name])
        return frozenset(row[0] for row in cursor.fetchall())
