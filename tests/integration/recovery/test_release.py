"""Release from a hold: permitted changes, their preview and effect, and what failed before."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.urls import reverse
from django.utils import timezone
from rest_framework.test import APIClient

from dags_app.failures import repair
from dags_app.models import FailureCluster
from dags_app.services import production
from dags_app.states import DAGKind, DAGStatus, FileState, RoundStatus
from requests_app.lifecycle import handlers
from requests_app.lifecycle.advance import advance
from requests_app.lifecycle.outcome import Move
from requests_app.models import Request
from requests_app.states import RequestStatus as S
from sites_app.models import SiteBan
from sites_app.selectors import usable_sites
from tests.dagfiles import allowed_sites
from tests.integration.factories import make_request, make_workflow
from tests.integration.recovery.factories import CERN, DESY, PURDUE, Round
from wms2_project.models import AuditEvent

pytestmark = pytest.mark.django_db
Planned = Callable[..., Round]


@pytest.fixture
def held(planned: Planned) -> Round:
    """Return a held round of ten groups, three of which failed at Purdue although DESY has their files."""
    round_ = planned([[PURDUE, DESY]] * 6 + [[CERN]] * 14)
    there = round_.reading(PURDUE)
    for group in round_.groups:
        if group.index in there:
            round_.fail(group.index, PURDUE)
        else:
            round_.finish(group.index)
    round_.end()
    round_.move(S.PARTIAL)
    advance(round_.request.pk)
    assert Request.objects.get(pk=round_.request.pk).status == S.HELD
    return round_


def release(client: APIClient, round_: Round, **body: Any) -> Any:
    path = f"/api/v1/requests/{round_.request.request_name}/release"
    return client.post(path, {"reason": "seen and understood"} | body)


def test_a_dry_run_lists_the_effects_of_a_release_and_changes_nothing(
    held: Round, operator: APIClient
) -> None:
    SiteBan.objects.all().delete()
    lfn = held.lfns_of(held.reading(PURDUE)[0])[0]
    answer = release(operator, held, site_bans=[PURDUE], excluded_files=[lfn], dry_run=True)
    assert answer.status_code == 200, answer.json()
    seen = answer.json()["preview"]
    assert (seen["groups_credited"], seen["groups_to_rerun"], seen["resumes"]) == (7, 3, False)
    assert (seen["sites_left"], seen["files_excluded"]) == ([CERN, DESY], [lfn])
    assert (seen["files_left"], seen["files_unreadable"]) == (5, 0)
    assert answer.json()["status"] == "held"
    assert not SiteBan.objects.exists()
    assert held.file(lfn).state == FileState.ASSIGNED


def test_a_release_with_changes_applies_each_of_them(held: Round, operator: APIClient) -> None:
    lfn = held.lfns_of(held.reading(PURDUE)[0])[0]
    body = {
        "site_bans": [PURDUE], "excluded_files": [lfn], "memory_mb": 3100, "retry_count": 5,
        "error_hold_threshold": 0.4, "time_per_event_sec": 90.0,
    }  # fmt: skip
    answer = release(operator, held, **body)
    assert answer.status_code == 200, answer.json()
    row = Request.objects.get(pk=held.request.pk)
    assert (row.status, row.hold_evidence) == ("queued", None)
    assert row.workflow.chosen_hold_threshold == 0.4
    ban = SiteBan.objects.get(workflow=row.workflow)
    assert (ban.site_id, ban.created_by) == (PURDUE, "user:olga")
    assert "excluded by user:olga: seen and understood" in held.file(lfn).excluded_reason
    assert AuditEvent.objects.get(action="release").detail["changes"]["memory_mb"] == 3100
    pool = usable_sites(workflow=row.workflow, now=timezone.now())
    dag = production.plan_round(workflow=held.workflow, sites=pool, priority=0)
    assert dag.round.number == 1
    groups = [held.directory(group.index) for group in dag.round.groups.all()]
    assert {site for group in groups for site in allowed_sites(group)} == {DESY}
    text = (groups[0] / "group.dag").read_text()
    assert ('MEM="3100"' in text, "RETRY proc_000000 5 " in text) == (True, True)
    events = next(iter(held.jobs_of(0).values()))["events"]
    assert f'WALL="{-(-events * 90 * 3 // 60)}"' in text, "three times what the operator says"
    planned_files = {lfn for index in range(len(groups)) for lfn in held.lfns_of(index)}
    assert len(planned_files) == 5, "only what is not done is planned again"
    assert not planned_files & set(
        held.workflow.input_files.filter(state="processed").values_list("lfn", flat=True)
    )


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"site_bans": ["T2_XX_Nowhere"]}, "site_bans"),
    ({"site_bans": ["not a site"]}, "site_bans[0]"),
    ({"site_bans": [CERN, DESY, PURDUE]}, "site_bans"),
    ({"excluded_files": ["/store/data/unknown.root"]}, "excluded_files"),
    ({"excluded_files": ["/etc/passwd"]}, "excluded_files[0]"),
    ({"memory_mb": 0}, "memory_mb"),
    ({"memory_mb": "much"}, "memory_mb"),
    ({"retry_count": 99}, "retry_count"),
    ({"error_hold_threshold": 0}, "error_hold_threshold"),
    ({"time_per_event_sec": 0}, "time_per_event_sec"),
    ({"error_hold_threshold": 1.5}, "error_hold_threshold"),
    ({"colour": "red"}, "colour"),
    ({"reason": ""}, "reason"),
]


@pytest.mark.parametrize("dry_run", [True, False])
def test_a_wrong_change_is_refused_by_field_and_nothing_is_released(
    held: Round, operator: APIClient, dry_run: bool
) -> None:
    before = SiteBan.objects.count()
    answers = [release(operator, held, **body, dry_run=dry_run) for body, _ in WRONG]
    assert [(one.status_code, list(one.json()["errors"])) for one in answers] == [
        (422, [field]) for _, field in WRONG
    ]
    assert Request.objects.get(pk=held.request.pk).status == S.HELD
    assert SiteBan.objects.count() == before


def test_processed_files_cannot_be_excluded(held: Round, operator: APIClient) -> None:
    done = held.workflow.input_files.filter(state="processed").first()
    assert done is not None
    answer = release(operator, held, excluded_files=[done.lfn])
    assert answer.status_code == 422
    assert "already processed" in answer.json()["errors"]["excluded_files"]


def test_only_held_requests_can_be_released_or_previewed(planned: Planned, operator: APIClient) -> None:
    round_ = planned([[CERN]])
    assert release(operator, round_).status_code == 409
    assert release(operator, round_, dry_run=True).status_code == 409


def test_a_release_after_a_stop_resumes_with_the_changes(planned: Planned, operator: APIClient) -> None:
    round_ = planned([[PURDUE, DESY]] * 4 + [[CERN]] * 4)
    (first, second), lfn = round_.reading(PURDUE), round_.lfns_of(round_.reading(PURDUE)[1])[0]
    round_.fail(first, PURDUE)
    round_.end(DAGStatus.STOPPED)
    round_.move(S.HELD)
    answer = release(operator, round_, site_bans=[PURDUE], excluded_files=[lfn], memory_mb=4000)
    assert answer.status_code == 200, answer.json()
    assert (round_.dag.kind, round_.dag.round.status) == (DAGKind.RESUME, RoundStatus.PLANNED)
    pool = usable_sites(workflow=round_.workflow, now=timezone.now())
    repair.repair_dag(dag=round_.dag, sites=pool)
    assert allowed_sites(round_.directory(first)) == {DESY}
    assert lfn not in round_.lfns_of(second)
    assert 'MEM="4000"' in (round_.directory(second) / "group.dag").read_text()


@pytest.mark.usefixtures("sites")
def test_generated_events_move_on_and_are_never_made_twice(operator: APIClient) -> None:
    workflow = make_workflow(
        input_dataset=None, total_events=1000, splitting_algo="EventBased", jobs_per_group=1,
        splitting_params={"events_per_job": 100},
    )  # fmt: skip
    round_ = Round(make_request(workflow=workflow, status=S.ACTIVE))
    pool = usable_sites(workflow=workflow, now=timezone.now())
    production.plan_round(workflow=workflow, sites=pool, priority=0)
    for group in round_.groups[:7]:
        round_.finish(group.index)
        workflow.refresh_from_db()
        workflow.produced_events += 100
        workflow.save()
    round_.end()
    round_.move(S.PARTIAL)
    advance(round_.request.pk)
    seen = release(operator, round_, dry_run=True).json()["preview"]
    assert (seen["groups_credited"], seen["groups_to_rerun"], seen["next_first_event"]) == (7, 3, 1001)
    assert release(operator, round_).status_code == 200
    dag = production.plan_round(workflow=round_.workflow, sites=pool, priority=0)
    assert (dag.round.first_event, dag.round.last_event) == (1001, 1300)


def test_the_errors_of_a_request_name_clusters_and_remedies(held: Round, viewer: APIClient) -> None:
    answer = viewer.get(f"/api/v1/requests/{held.request.request_name}/errors")
    assert answer.status_code == 200, answer.content
    body = answer.json()
    assert body["hold"]["failure_ratio"] == 0.3
    assert body["groups"] == {"planned": 0, "done": 0, "collected": 7, "failed": 3}
    assert body["counts"] == [
        {"category": "infrastructure", "site": PURDUE, "exit_code": 60307, "jobs": 6},
    ]
    top = body["clusters"][0]
    assert (top["site"], top["jobs"], top["share_at_site"], top["share_elsewhere"]) == (PURDUE, 6, 1.0, 0.0)
    assert top["log_tail"].startswith("the last lines of")
    assert (top["suggestion"]["action"], top["suggestion"]["modifications"]) == (
        "ban_site", {"site_bans": [PURDUE]},
    )  # fmt: skip
    assert top["suggestion"]["preview"]["sites_left"] == [CERN, DESY]


def test_a_running_request_shows_what_has_failed_so_far(planned: Planned, viewer: APIClient) -> None:
    round_ = planned([[CERN]] * 6)
    round_.fail(0, message="no space left")
    body = viewer.get(f"/api/v1/requests/{round_.request.request_name}/errors").json()
    assert [(one["site"], one["jobs"], one["message"]) for one in body["running"]] == [
        (CERN, 2, "no space left")
    ]
    assert (body["hold"], body["clusters"]) == (None, [])


def test_errors_across_requests_join_alike_ones(planned: Planned, viewer: APIClient) -> None:
    for site in (CERN, DESY):
        round_ = planned([[site]] * 2)
        round_.fail(0, site, message=f"cannot copy /store/data/{site}/1.root")
        round_.end()
        round_.move(S.PARTIAL)
        advance(round_.request.pk)
    body = viewer.get("/api/v1/errors?days=1").json()
    (only,) = body["results"]
    assert (only["message"], only["jobs"], only["requests"]) == ("cannot copy <path>", 4, 2)
    assert only["sites"] == {CERN: 2, DESY: 2}
    assert len(only["examples"]) == 2
    assert FailureCluster.objects.count() == 2
    assert viewer.get("/api/v1/errors?colour=red").status_code == 422


def test_the_page_of_a_held_request_shows_its_failures(held: Round, console: Any) -> None:
    page = console.get(f"/admin/requests_app/request/{held.request.pk}/change/").content.decode()
    assert 'id="failures-title"' in page
    assert "Release with a site ban" in page


def test_the_console_releases_with_changes(held: Round, console: Any) -> None:
    path = reverse("admin:requests_app_request_release", args=[held.request.pk])
    body = {"_confirmed": "1", "reason": "seen", "site_bans": f"{DESY}\n{CERN}", "memory_mb": "2500"}
    console.post(path, body)
    row = Request.objects.get(pk=held.request.pk)
    assert row.status == S.HELD, "no usable site would remain"
    console.post(path, body | {"site_bans": CERN})
    row.refresh_from_db()
    assert (row.status, row.workflow.chosen_memory_mb) == ("queued", 2500)


def test_deciding_again_gives_the_same_move(held: Round) -> None:
    first = handlers.on_partial(held.move(S.PARTIAL), timezone.now())
    again = handlers.on_partial(held.move(S.PARTIAL), timezone.now())
    assert isinstance(first, Move)
    assert first == again
