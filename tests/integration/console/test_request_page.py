"""The request page: its order and texts, and that text of users is never markup."""

from __future__ import annotations

import re
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from dags_app.models import FailureCluster
from dags_app.states import DAGStatus, FileState, GroupStatus
from outputs_app.states import BlockStatus
from requests_app.guide import hold_entry
from requests_app.models import ProgressSample, Request
from requests_app.states import RequestStatus
from tests.integration.factories import (
    ago,
    make_block,
    make_dag,
    make_file,
    make_group,
    make_request,
    make_round,
    make_user,
)
from wms2_project.access.roles import Role

pytestmark = pytest.mark.django_db
HOSTILE = "<img src=x onerror=alert(1)>'\"</pre><script>alert(2)</script>{{ 7*7 }}"
ORDER = (
    "Progress",
    "Why",
    "Graph",
    "Failures",
    "Timeline",
    "Resources",
    "Outputs",
    "Input",
    "Facts",
    "Rounds",
)


def client_as(role: Role) -> Client:
    made = Client()
    made.force_login(make_user(role=role, is_staff=True))
    return made


def page(client: Client, row: Request) -> str:
    answer = client.get(f"/admin/requests_app/request/{row.pk}/change/")
    assert answer.status_code == 200
    return str(answer.content.decode())


@pytest.fixture
def held() -> Request:
    """Return a held request with a failed DAG and its rescue, outputs, input files and samples."""
    row = make_request(status=RequestStatus.HELD, last_error=f"3 of 10 groups failed {HOSTILE}")
    make_file(row.workflow, excluded_reason=HOSTILE, state=FileState.EXCLUDED)
    round_ = make_round(row.workflow, estimate={"memory_mb": 2000, "time_per_event_sec": 1.0})
    first = make_dag(round_, status=DAGStatus.PARTIAL, completed_at=ago(hours=1))
    rescue = make_dag(round_, status=DAGStatus.PARTIAL, completed_at=timezone.now(), parent=first)
    metrics = {
        "peak_rss_mb": 1500, "wall_time_sec": 60.0, "jobs": 4, "wall_time_per_event_sec": 0.6,
        "output_kb_per_event": 1.0, "cpu_efficiency": 0.9,
    }  # fmt: skip
    group = make_group(round_, status=GroupStatus.COLLECTED, metrics=metrics, site="T2_CH_CERN")
    make_block(group, status=BlockStatus.TRANSFERRING, last_error=HOSTILE)
    for dag in (first, rescue):
        FailureCluster.objects.create(
            dag=dag, workflow=row.workflow, fingerprint="a" * 16, site="T2_US_Purdue", jobs=9,
            exit_code=71102, category="infrastructure", message="gone", example=HOSTILE, log_tail=HOSTILE,
            groups=["mg_000000"], node="mg_000000/proc_000000", jobs_at_site=9, failed_elsewhere=0,
            jobs_elsewhere=20,
        )  # fmt: skip
    for minutes, done in ((30, 0), (10, 60)):
        ProgressSample.objects.create(
            request=row, at=ago(minutes=minutes), status="active", events_total=100, events_done=done
        )
    return row


def test_the_parts_of_the_page_are_in_order(held: Request) -> None:
    titles = re.findall(r"<h2 id=\"\w+-title\">(\w+)", page(client_as(Role.OPERATOR), held))
    assert tuple(titles[: len(ORDER)]) == ORDER


def test_a_hold_has_one_next_action_with_the_suggested_values(held: Request) -> None:
    html = page(client_as(Role.OPERATOR), held)
    (button,) = re.findall(r'<a class="wms2-button" data-tone="primary" href="([^"]+)">([^<]+)', html)
    assert button == (
        f"/admin/requests_app/request/{held.pk}/release/?site_bans=T2_US_Purdue", "Release with a site ban …",
    )  # fmt: skip


def test_a_hold_links_to_its_entry_of_the_guide(held: Request) -> None:
    Request.objects.filter(pk=held.pk).update(last_error="58 % of the jobs failed")
    assert f'{reverse("console:guide")}#{hold_entry("58 % of the jobs failed").slug}"' in page(
        client_as(Role.VIEWER), held
    )


def test_a_viewer_sees_the_suggestion_without_a_button(held: Request) -> None:
    html = page(client_as(Role.VIEWER), held)
    assert 'wms2-button" data-tone="primary"' not in html
    assert f"{held.pk}/release/" not in html


def test_failures_of_a_dag_and_its_rescue_are_one_row_with_a_count(held: Request) -> None:
    html = page(client_as(Role.VIEWER), held)
    assert html.count('data-cell="T2_US_Purdue/71102"') == 2  # the cell of the matrix and one cause
    assert "in 2 DAGs" in html


def test_text_of_others_is_never_markup(held: Request) -> None:
    html = page(client_as(Role.OPERATOR), held)
    assert "<img src=x" not in html
    assert "<script>alert" not in html
    assert html.count("&lt;img src=x") >= 4


@pytest.mark.parametrize("status", list(RequestStatus))
def test_every_status_has_a_page(status: RequestStatus) -> None:
    html = page(client_as(Role.OPERATOR), make_request(status=status))
    assert "Next:" in html


def test_the_page_takes_as_many_queries_for_many_groups_as_for_few(
    held: Request, django_assert_max_num_queries: Any
) -> None:
    client = client_as(Role.OPERATOR)
    page(client, held)
    round_ = held.workflow.rounds.get()
    for _ in range(30):
        make_group(round_, status=GroupStatus.FAILED)
    with django_assert_max_num_queries(120):
        page(client, held)


def test_an_unchanged_part_is_not_sent_again(held: Request) -> None:
    client = client_as(Role.VIEWER)
    url = f"/admin/console/fragments/request-work?of={held.request_name}"
    first = client.get(url)
    assert client.get(url, headers={"If-None-Match": first["ETag"]}).status_code == 304
    assert client.get("/admin/console/fragments/request-work?of=unknown").status_code == 404
