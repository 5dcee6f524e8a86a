"""Failures in `/errors`: one row per cause, and a safe suggestion."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from rest_framework.test import APIClient

from dags_app.failures.records import record_failures
from dags_app.models import FailureCluster
from dags_app.services import production
from dags_app.states import DAGKind, DAGStatus
from requests_app.lifecycle.advance import advance
from requests_app.states import RequestStatus as S
from tests.integration.recovery.factories import CERN, DESY, PURDUE, Round

pytestmark = pytest.mark.django_db
Planned = Callable[..., Round]
BROKEN: dict[str, Any] = {"exit_code": 8001, "category": "permanent", "message": "no record"}


def fail_all(round_: Round, indices: list[int], site: str, **values: Any) -> None:
    for group in round_.groups:
        if group.index in indices:
            round_.fail(group.index, site, **values)


def finish_others(round_: Round, site: str = CERN) -> None:
    for group in round_.groups:
        if group.status == "planned":
            round_.finish(group.index, site)


def hold(round_: Round) -> None:
    round_.end()
    round_.move(S.PARTIAL)
    advance(round_.request.pk)


def errors(client: APIClient, round_: Round) -> dict[str, Any]:
    answer = client.get(f"/api/v1/requests/{round_.request.request_name}/errors")
    assert answer.status_code == 200, answer.content
    return dict(answer.json())


def test_a_code_that_fails_at_one_site_only_accuses_the_site(planned: Planned, viewer: APIClient) -> None:
    round_ = planned([[PURDUE, DESY]] * 8 + [[CERN]] * 16)
    fail_all(round_, round_.reading(PURDUE), PURDUE, **BROKEN)
    finish_others(round_)
    hold(round_)
    (cluster,) = errors(viewer, round_)["clusters"]
    assert (cluster["jobs"], cluster["jobs_at_site"], cluster["jobs_elsewhere"]) == (8, 8, 16)
    assert (cluster["suggestion"]["action"], cluster["suggestion"]["modifications"]) == (
        "ban_site", {"site_bans": [PURDUE]},
    )  # fmt: skip


def test_failing_the_request_is_suggested_only_after_failures_at_two_sites(
    planned: Planned, viewer: APIClient
) -> None:
    suggested = {}
    for sites in ([CERN], [CERN, DESY]):
        round_ = planned([[site] for site in sites for _ in range(4)])
        for site in sites:
            fail_all(round_, round_.reading(site), site, **BROKEN)
        hold(round_)
        found = errors(viewer, round_)["clusters"]
        suggested[len(sites)] = {cluster["suggestion"]["action"] for cluster in found}
    assert suggested == {1: {"retry"}, 2: {"fail"}}


def test_suggested_memory_is_above_the_requested_memory(planned: Planned, viewer: APIClient) -> None:
    round_ = planned([[CERN]] * 2, memory_mb=2500)
    limit = "needs more than the ceiling of 3000 MB"
    fail_all(
        round_, [0], CERN, exit_code=50660, category="permanent", memory_mb=0, memory_asked_mb=0, limit=limit
    )
    hold(round_)
    (cluster,) = errors(viewer, round_)["clusters"]
    assert cluster["suggestion"]["modifications"] == {"memory_mb": 3800}
    assert cluster["suggestion"]["why"] == f"2500 MB were not enough; retries ended: {limit}"


def test_a_file_is_suggested_for_exclusion_only_when_every_replica_is_bad(
    planned: Planned, viewer: APIClient
) -> None:
    suggested = {}
    for places in ([CERN], [CERN, DESY]):
        round_ = planned([places] * 2)
        (lfn, _), (node, _) = round_.lfns_of(0), round_.jobs_of(0)
        round_.fail(0, CERN, nodes=[node], category="data", exit_code=8021, bad_files=[lfn])
        hold(round_)
        (cluster,) = errors(viewer, round_)["clusters"]
        suggested[len(places)] = cluster["suggestion"]["action"]
    assert suggested == {1: "exclude_files", 2: "retry"}
    record_failures(dag=round_.dag)
    round_.fail(0, DESY, nodes=[node], category="data", exit_code=8021, bad_files=[lfn])
    record_failures(dag=round_.dag)
    found = {one["site"]: one["suggestion"] for one in errors(viewer, round_)["clusters"]}
    assert found[DESY]["modifications"] == {"excluded_files": [lfn]}, "now both are proved bad"


def test_a_dag_and_its_rescue_that_fail_alike_are_one_row_with_a_count(
    planned: Planned, viewer: APIClient
) -> None:
    round_ = planned([[CERN]] * 4)
    fail_all(round_, [0, 1], CERN)
    round_.end()
    record_failures(dag=round_.dag)
    production.prepare_dag(parent=round_.dag, kind=DAGKind.RESCUE)
    round_.finish(1)
    round_.fail(0, CERN)
    hold(round_)
    assert FailureCluster.objects.count() == 2
    body = errors(viewer, round_)
    (row,) = body["clusters"]
    assert (row["dags"], row["jobs"], row["dag_kind"]) == (2, 2, "rescue")
    assert body["counts"] == [{"category": "infrastructure", "site": CERN, "exit_code": 60307, "jobs": 2}]
    (across,) = viewer.get("/api/v1/errors").json()["results"]
    assert (across["jobs"], across["sites"]) == (2, {CERN: 2})


def test_causes_across_requests_are_joined_regardless_of_their_wording(
    planned: Planned, viewer: APIClient
) -> None:
    for message, code in (("OverMemory: 9 MB", 50660), ("bad_alloc", 8004)):
        round_ = planned([[CERN]] * 2)
        fail_all(round_, [0], CERN, exit_code=code, category="permanent", message=message)
        hold(round_)
    (across,) = viewer.get("/api/v1/errors").json()["results"]
    assert (across["jobs"], across["requests"]) == (4, 2)


def test_a_killed_dagman_blames_no_site(planned: Planned) -> None:
    round_ = planned([[CERN]])
    directory = round_.directory(0)
    (directory / "elected_site.inc").write_text(f"elected_site = {CERN}\n")
    (directory / "group.dag.dagman.out").touch()
    round_.end(DAGStatus.FAILED)
    round_.dag.refresh_from_db()
    assert round_.dag.exit_code is None

    jobs = record_failures(dag=round_.dag).jobs

    assert [(job.group, job.site, job.category) for job in jobs] == [("mg_000000", "", "infrastructure")]
