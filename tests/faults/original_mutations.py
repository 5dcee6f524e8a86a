"""The defects of the original design that lost or doubled outputs."""

# mypy: disable-error-code="assignment, attr-defined, method-assign, misc"
from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

from tests.faults.mutation import COPIES, GENERATES, READS, always_rescue, mutation


@mutation()
def other_group_names() -> None:
    """Groups are called MergeGroup_ by the monitor and mg_ by the planner."""
    from dags_app.services import monitoring

    monitoring.group_index = lambda name: None
    monitoring._has_manifest = lambda dag, group: (
        Path(dag.submit_dir) / f"MergeGroup_{group.index}" / "merge_output.json"
    ).exists()


@mutation(("hide_manifest", 3, 7200.0, ""), changes={**READS, "files": 9})
def reported_without_manifest() -> None:
    """A finished group counts as reported although its manifest was not there."""
    from dags_app.models import MergeGroup
    from dags_app.services import ledger, manifests
    from dags_app.states import GroupStatus
    from requests_app.services import outputs

    found = manifests.finished_groups

    def finished_groups(*, dag: Any) -> Iterator[Any]:
        for group, manifest in found(dag=dag):
            if isinstance(manifest, manifests.BadManifest):
                MergeGroup.objects.filter(pk=group.pk).update(status=GroupStatus.COLLECTED)
                ledger.credit_group(group=group)
            else:
                yield group, manifest

    outputs.manifests.finished_groups = finished_groups


@mutation(("pause", 1, 7200.0, "active"))
def last_poll_counts() -> None:
    """Groups that finish between the last poll and the end of the DAG are not credited."""
    from dags_app.services import monitoring

    monitoring._has_manifest = lambda dag, group: False


@mutation(("silence", 1, 600.0, "query_dags"), changes={**READS, "files": 8})
def silence_means_gone() -> None:
    """A schedd that does not answer counts as one without the DAG."""
    from dags_app.services import monitoring
    from wms2_project.errors import ScheddUnreachable

    observe = monitoring._observe_schedd

    def _observe_schedd(name: str, dags: Any, now: Any, seen: Any) -> None:
        try:
            observe(name, dags, now, seen)
        except ScheddUnreachable:
            for dag in dags:
                monitoring._finish(dag, monitoring.Ending(exit_code=None, removed=False), now)
                seen.news.add(dag.workflow_id)

    monitoring._observe_schedd = _observe_schedd


@mutation(("crash", 1, 0.0, "submit.sent"))
def submitted_before_recorded() -> None:
    """The DAG is submitted under a new name each time, and recorded afterwards."""
    from dags_app.models import DAG
    from dags_app.services import submission

    submit = submission._adopted

    def _adopted(dag: Any) -> Any:
        if dag.status == "ready":
            DAG.objects.filter(pk=dag.pk).update(token=f"wms2-{uuid4().hex}")
        return submit(dag)

    submission._adopted = _adopted


@mutation(changes=GENERATES)
def planning_without_handler() -> None:
    """Nothing handles requests in PLANNING."""
    from requests_app.lifecycle import handlers
    from requests_app.lifecycle.outcome import Wait
    from requests_app.states import RequestStatus

    handlers.HANDLERS[RequestStatus.PLANNING] = lambda request, now: Wait(600, "nothing")


@mutation(*(("crash", number, 0.0, "block.moved") for number in (5, 6, 7)), changes=COPIES)
def released_is_forgotten() -> None:
    """A block whose source was released is not looked at again before it is announced."""
    from requests_app.lifecycle import due

    statuses = due.statuses_of
    due.statuses_of = lambda tier: [one for one in statuses(tier) if one != "source_released"]


@mutation(("crash", 1, 0.0, "after POST rucio/rules"), changes=COPIES)
def rules_are_made_again() -> None:
    """A rule is created without a look for the one of an earlier attempt."""
    from cms.rucio import RucioClient

    def refuse(self: Any, did: str, rse: str, copies: int, lifetime: Any) -> str:
        raise ValueError("DuplicateRule")

    RucioClient._adopt_rule = refuse


@mutation(
    ("stop", 4, 0.0, "active"),
    ("stop", 8, 0.0, "active"),
    ("kill_dagman", 12, 0.0, "active"),
    changes={**READS, "files": 40},
)
def first_rescue_file() -> None:
    """What is done is written into the first rescue file, although DAGMan reads the last."""
    from condor import dag_edits

    always_rescue()
    dag_edits.highest_rescue = lambda dag_file: None


@mutation(seed=6)
def site_of_another_group() -> None:
    """A group is believed to be at the site where another one landed."""
    from dags_app.services import manifests

    elected = manifests.elected_site
    manifests.elected_site = lambda group: elected(group.parent / "mg_000000")


@mutation(changes={**READS, "failing": 0.5})
def post_sleeps() -> None:
    """POST waits for the cool-off itself."""
    from sandbox import post_script

    post_script._set_cooloff = lambda attempt, decision: post_script.time.sleep(60)
