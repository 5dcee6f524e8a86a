"""Record the outputs of finished groups: while the DAG runs, when it ends, before a release."""

from __future__ import annotations

from datetime import datetime

from django.db import transaction

from dags_app.models import DAG, MergeGroup
from dags_app.services import manifests
from dags_app.states import GroupStatus, RoundKind
from outputs_app import services as outputs
from requests_app.models import Request
from requests_app.states import TERMINAL
from sandbox.manifest import GroupManifest
from sites_app.selectors import storage_at
from wms2_project.changes import Topic, announce, announce_requests
from wms2_project.errors import TransientError, Wms2Error
from wms2_project.failpoints import failpoint


def collect(dag: DAG, now: datetime) -> None:
    """Record the outputs of all finished groups. Errors of bad manifests are raised at the end."""
    if dag.round.kind == RoundKind.PULL:  # its runners have recorded their outputs themselves
        dag.round.groups.filter(status=GroupStatus.DONE).update(status=GroupStatus.COLLECTED)
        return
    problems: list[Wms2Error] = []
    for group, manifest in manifests.finished_groups(dag=dag):
        if isinstance(manifest, Wms2Error):
            problems.append(manifest)
            MergeGroup.objects.filter(pk=group.pk).update(last_error=str(manifest))
        else:
            rse = storage_at(manifest.site)
            failpoint("collect.read")
            if not _record(group, manifest, rse=rse, now=now):
                return
            failpoint("collect.recorded")
    if problems:  # transient errors first: an unavailable disk must not fail a group
        raise min(problems, key=lambda problem: not isinstance(problem, TransientError))


def _record(group: MergeGroup, manifest: GroupManifest, *, rse: str, now: datetime) -> bool:
    """Record the group. Return False if the request has ended in the meantime.

    The request row is locked until the group is recorded, so that ending the request sees all of the group's
    outputs or none.
    """
    with transaction.atomic():
        request = Request.objects.select_for_update(of=("self",)).get(workflow=group.round.workflow_id)
        if request.status in TERMINAL:
            return False
        outputs.record_group(group=group, manifest=manifest, rse=rse, now=now)
        announce_requests(request.request_name)
        announce(Topic.OUTPUTS)
    return True
