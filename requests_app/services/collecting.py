"""Take the outputs of finished groups into our tables: as the DAG runs, when it ends, before a release."""

from __future__ import annotations

from datetime import datetime

from dags_app.models import DAG
from dags_app.services import collecting
from outputs_app import services as outputs
from sites_app.selectors import storage_at
from wms2_project.failpoints import failpoint


def collect(dag: DAG, now: datetime) -> None:
    """Everything that finished goes into our tables now; a bad manifest does not keep the good ones out."""
    problems: list[collecting.BadManifest] = []
    for found in collecting.finished_groups(dag=dag):
        if isinstance(found, collecting.BadManifest):
            problems.append(found)
        else:
            rse = storage_at(found.manifest.site)
            failpoint("collect.read")
            outputs.record_group(group=found.group, manifest=found.manifest, rse=rse, now=now)
            failpoint("collect.recorded")
    if problems:
        raise problems[0]
