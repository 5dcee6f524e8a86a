"""The gate of secondary input: jobs run only where their pileup is."""

from __future__ import annotations

from typing import Any

from dags_app.services.secondary import files_at, holds_all, located_files, secondary_datasets
from dags_app.states import LIVE_DAG
from requests_app.lifecycle.gate_result import Gate, Verdict, passed
from requests_app.lifecycle.snapshot import Snapshot
from sites_app.models import Site
from wms2_project.wakeups import PILEUP
from wms2_project.words import counted

MAX_NAMED = 20  # sites listed in the evidence


def pileup(snapshot: Snapshot) -> Gate:
    """Block while no usable site holds the secondary datasets. An existing DAG continues where possible."""
    rows = secondary_datasets(workflow=snapshot.workflow)
    if not rows:
        return passed(PILEUP, "the request has no secondary input")
    pool = snapshot.sites
    given = {row.name: f"{len(row.lfns)} of {counted(row.files, 'file')}" for row in rows}
    if pool.names or not pool.lacking:
        message = f"{counted(len(pool.names), 'usable site')} with all secondary input"
        return passed(PILEUP, message, given_to_jobs=given, sites_without=sorted(pool.lacking)[:MAX_NAMED])
    if snapshot.dag is not None and snapshot.dag.status in LIVE_DAG and not snapshot.prepared:
        return passed(PILEUP, "the DAG exists already")
    storages = dict(Site.objects.filter(name__in=pool.lacking).values_list("name", "storage_elements"))
    held: dict[str, Any] = {
        row.name: {name: files_at(row, storages[name]) for name in sorted(storages)[:MAX_NAMED]}
        for row in rows
    }
    short = [row for row in rows if not any(holds_all(row, read) for read in storages.values())]
    first = (short or rows)[0]
    best = max(storages, key=lambda name: (files_at(first, storages[name]), name))
    message = (
        f"no usable site holds the secondary dataset {first.name}:"
        f" {best} has {files_at(first, storages[best])} of {counted(located_files(first), 'file')}"
    )
    return Gate(
        PILEUP,
        Verdict.BLOCK,
        message if short else f"no usable site holds all {len(rows)} secondary datasets",
        {"files_held": held, "given_to_jobs": given, "looked_up_at": min(row.located_at for row in rows)},
        since=snapshot.request.status_since,
        remedy="Replicate the dataset to a site of the request, or allow a site that holds it. Rucio is"
        " queried again automatically",
    )
