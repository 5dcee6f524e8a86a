"""Every page of the console renders, offline, read-only, at a cost that does not grow with the rows."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any

import pytest
from django.contrib import admin
from django.db import connection
from django.db.models import Model
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone

from dags_app.failures.models import FailureCluster
from dags_app.models import DAG, DAGEvent, InputFile, MergeGroup, Round, Runner, RunnerOutput, Schedd
from outputs_app.models import OutputBlock, OutputDataset, RucioRule
from requests_app.admission import limits
from requests_app.models import Alert, Quota, Request
from requests_app.services.alerts import raise_alert
from requests_app.states import RequestStatus
from sites_app.models import Site, SiteBan
from tests.integration.factories import (
    ago,
    make_block,
    make_chain,
    make_dag,
    make_file,
    make_group,
    make_quarantined,
    make_request,
    make_round,
    make_secondary,
    make_site,
    make_token,
    make_user,
)
from tests.integration.pull.factories import make_runner
from wms2_project.access.audit import record
from wms2_project.access.roles import Role
from wms2_project.console import BoundedPaginator, ReadOnlyAdmin, age_of, size_of
from wms2_project.models import Identity

pytestmark = pytest.mark.django_db
SHOWN = [model for model, page in admin.site._registry.items() if isinstance(page, ReadOnlyAdmin)]


def fill(number: int) -> None:
    """Add a row to each table."""
    row = make_request(status=RequestStatus.HELD, hold_evidence={"reason": "no site"}, last_error="no site")
    round_ = make_round(row.workflow)
    dag, group = make_dag(round_), make_group(round_)
    DAGEvent.objects.create(dag=dag, event_type="submitted")
    make_file(row.workflow)
    runner = make_runner(row.workflow)
    RunnerOutput.objects.create(
        runner=runner,
        name="a.root",
        pattern=1,
        lfn=f"/store/a{number}.root",
        size_bytes=1,
        adler32="00000001",
    )
    make_quarantined(dag)
    make_secondary(f"/Pileup/Era{number}-v1/PREMIX")
    block = make_block(group)
    RucioRule.objects.create(block=block, kind="source", rse_expression="T1_US_FNAL_Disk")
    make_chain(mask="")
    raise_alert(request=row, kind="slow_dag", message="it takes long")
    Schedd.objects.create(name=f"schedd{number}@pool")
    site = make_site(f"T2_US_Site{number}")
    SiteBan.objects.create(
        site=site, workflow=row.workflow, reason="r", created_by="s:s", expires_at=ago(days=-7)
    )
    make_token(make_user())
    Identity.objects.create(user=make_user(), issuer="x509", subject=f"/CN={number}")
    record(actor="user:olga", action="change", target=row.request_name, reason="a test")
    limits()
    Quota.objects.create(scope="requestor", name=f"person{number}", open_requests=number)


def page(model: type[Model], kind: str, *args: Any) -> str:
    return reverse(f"admin:{model._meta.app_label}_{model._meta.model_name}_{kind}", args=args)


@pytest.mark.parametrize("model", SHOWN, ids=lambda model: model.__name__)
def test_the_list_of_every_model_costs_the_same_for_more_rows(console: Client, model: type[Model]) -> None:
    fill(1)
    console.get(page(model, "changelist"), follow=True)
    with CaptureQueriesContext(connection) as few:
        assert console.get(page(model, "changelist"), follow=True).status_code == 200
    for number in range(2, 6):
        fill(number)
    with CaptureQueriesContext(connection) as many:
        assert console.get(page(model, "changelist"), follow=True).status_code == 200
    assert len(many) <= len(few), "\n".join(query["sql"] for query in many)


@pytest.mark.parametrize("model", SHOWN, ids=lambda model: model.__name__)
def test_the_page_of_every_row_renders(console: Client, model: type[Model]) -> None:
    fill(1)
    row = model._default_manager.first()
    assert row is not None
    answer = console.get(page(model, "change", row.pk))
    assert answer.status_code == 200
    assert 'name="_save"' not in answer.content.decode()


@pytest.mark.parametrize("model", SHOWN, ids=lambda model: model.__name__)
def test_nothing_is_added_changed_or_deleted_through_a_form(console: Client, model: type[Model]) -> None:
    fill(1)
    row = model._default_manager.first()
    assert row is not None
    before = model._default_manager.count()
    answers = [
        console.get(page(model, "add")),
        console.post(page(model, "add"), {}),
        console.post(page(model, "change", row.pk), {"status": "completed"}),
        console.post(page(model, "delete", row.pk), {"post": "yes"}),
    ]
    assert [answer.status_code for answer in answers] == [403, 403, 403, 403]
    assert model._default_manager.count() == before


def test_the_pages_load_nothing_from_elsewhere(console: Client) -> None:
    fill(1)
    urls = [reverse("admin:index"), *(page(model, "changelist") for model in SHOWN)]
    for url in urls:
        html = console.get(url, follow=True).content.decode()
        foreign = re.findall(r'(?:src|href|action)="((?:https?:)?//[^"]+)"', html)
        assert foreign == [], url


def test_the_list_searches_and_filters(console: Client) -> None:
    first = make_request(status=RequestStatus.HELD, request_name="find_me", campaign="Old")
    make_request(status=RequestStatus.ACTIVE, request_name="not_this", campaign="New")
    url = reverse("admin:requests_app_request_changelist")
    for query in ("q=find", "status__exact=held", "campaign=Old"):
        html = console.get(f"{url}?{query}").content.decode()
        assert first.request_name in html, query
        assert "not_this" not in html, query


def test_the_page_of_a_request_shows_its_history(console: Client) -> None:
    fill(1)
    row = make_request(status=RequestStatus.QUEUED)
    html = console.get(reverse("admin:requests_app_request_change", args=[row.pk])).content.decode()
    for message in (row.request_name, "position 1 in the queue", "made for a test", "verbatim", "Timeline"):
        assert message in html, message


@pytest.mark.parametrize("path", ["/", "/admin"])
def test_the_short_addresses_lead_to_the_console(client: Client, path: str) -> None:
    answer = client.get(path)
    assert (answer.status_code, answer["Location"]) == (302, "/admin/")


def test_a_user_without_staff_status_sees_nothing(client: Client) -> None:
    client.force_login(make_user(role=Role.REQUESTOR))
    answer = client.get(reverse("admin:requests_app_request_changelist"))
    assert answer.status_code == 302
    assert "/login/" in answer["Location"]


def test_a_huge_list_is_counted_up_to_a_limit(console: Client, monkeypatch: Any) -> None:
    monkeypatch.setattr(BoundedPaginator, "most", 3)
    for _ in range(5):
        make_request()
    with CaptureQueriesContext(connection) as queries:
        html = console.get(reverse("admin:requests_app_request_changelist")).content.decode()
    assert re.search(r"\b3 results", html), html
    counts = [
        query["sql"]
        for query in queries
        if "COUNT(*)" in query["sql"] and "requests_app_request" in query["sql"]
    ]
    assert counts
    assert all("LIMIT 3" in sql for sql in counts)


@pytest.mark.parametrize(
    ("units", "expected"),
    [
        ({"seconds": 0}, "0 s"),
        ({"seconds": 119}, "119 s"),
        ({"minutes": 2}, "2 min"),
        ({"hours": 5}, "5 h"),
        ({"days": 9}, "9 d"),
    ],
)
def test_ages_are_shown_in_the_largest_useful_unit(units: dict[str, int], expected: str) -> None:
    now = timezone.now()
    assert age_of(now - timedelta(**units), now=now).split("\N{NO-BREAK SPACE}") == expected.split()


@pytest.mark.parametrize(
    ("size", "expected"), [(None, "0 B"), (999, "999 B"), (1000, "1.0 kB"), (4_000_000_000, "4.0 GB")]
)
def test_sizes_are_shown_in_decimal_units(size: int | None, expected: str) -> None:
    assert size_of(size).split("\N{NO-BREAK SPACE}") == expected.split()


def test_the_page_of_a_request_shows_why_it_waits(console: Client) -> None:
    row = make_request(status=RequestStatus.HELD, last_error="no site left", hold_evidence={"ratio": 0.4})
    page = console.get(f"/admin/requests_app/request/{row.pk}/change/").content.decode()
    assert "no site left" in page
    assert "release, fail or abort the request" in page


def test_the_name_of_a_request_is_an_address_too(console: Client) -> None:
    row = make_request(request_name="ana_Muons_v1")
    answer = console.get("/admin/requests_app/request/ana_Muons_v1/change/")
    assert (answer.status_code, answer["Location"]) == (302, page(Request, "change", row.pk))
    assert console.get("/admin/requests_app/request/unknown_s/change/").status_code == 404


@pytest.mark.parametrize(
    "model", [DAG, Round, MergeGroup, InputFile, Runner, RunnerOutput, OutputDataset, SiteBan, Alert]
)
def test_pages_of_related_objects_link_to_the_request(console: Client, model: type[Model]) -> None:
    fill(1)
    name = Request.objects.get().request_name
    row = model._default_manager.first()
    assert row is not None
    for url in (page(model, "changelist"), page(model, "change", row.pk)):
        assert f'href="/admin/requests_app/request/{name}/change/"' in console.get(url).content.decode(), url


def test_a_name_is_shown_as_it_is_written(console: Client) -> None:
    row = make_request(request_name="ana_Muons_v1")
    html = console.get(page(Request, "change", row.pk)).content.decode()
    assert "Ana_Muons" not in html


def test_the_page_of_a_row_shows_no_empty_fields_and_no_raw_pairs(console: Client) -> None:
    fill(1)
    html = console.get(page(OutputBlock, "change", OutputBlock.objects.get().pk)).content.decode()
    for absent in ("Heartbeat", "Worker deaths", "Invalidation reason", "(&#x27;pending&#x27;"):
        assert absent not in html, absent


def test_suggestions_link_to_the_form_that_carries_them_out(console: Client) -> None:
    row = make_request(status=RequestStatus.HELD, last_error="3 of 10 groups failed")
    dag = make_dag(make_round(row.workflow))
    FailureCluster.objects.create(
        dag=dag, workflow=row.workflow, site="T2_US_Purdue", category="infrastructure", exit_code=71102,
        step="cmsRun1", message="gone", example="gone", jobs=9, jobs_at_site=9,
        failed_elsewhere=0, jobs_elsewhere=20,
    )  # fmt: skip
    html = console.get(page(Request, "change", row.pk)).content.decode()
    form = f"/admin/requests_app/request/{row.pk}/release/?site_bans=T2_US_Purdue"
    assert f'href="{form}"' in html
    assert ">T2_US_Purdue</textarea>" in console.get(form).content.decode().replace("\n", "")


def test_pages_use_the_singular_for_one_and_omit_empty_steps(console: Client) -> None:
    row = make_request(status=RequestStatus.HELD)
    row.workflow.cores = 1
    row.workflow.save()
    FailureCluster.objects.create(
        dag=make_dag(make_round(row.workflow)), workflow=row.workflow, site="T2_US_Purdue",
        category="infrastructure", exit_code=99400, message="gone", example="gone", jobs=1, jobs_at_site=1,
        failed_elsewhere=0, jobs_elsewhere=0,
    )  # fmt: skip
    html = console.get(page(Request, "change", row.pk)).content.decode()
    assert "infrastructure 99400 at T2_US_Purdue" in html
    assert " 1 core," in html


@pytest.mark.parametrize("status", [RequestStatus.HELD, RequestStatus.FAILED])
def test_the_list_shows_the_reason_of_a_stopped_request(console: Client, status: RequestStatus) -> None:
    make_request(status=status, last_error="the pilot ended failed twice")
    assert "the pilot ended failed twice" in console.get(page(Request, "changelist")).content.decode()


def followed(console: Client, url: str, pattern: str) -> list[str]:
    return re.findall(f'href="({pattern})"', console.get(url).content.decode())


@pytest.mark.parametrize(
    ("model", "values", "offered"),
    [
        (Site, {"name": "T2_CH_CERN"}, ["drain", "ban"]),
        (Site, {"name": "T2_CH_CERN", "status": "draining"}, ["enable", "ban"]),
        (Schedd, {"name": "schedd_ce@pool"}, ["drain"]),
        (Schedd, {"name": "schedd_ce@pool", "status": "draining"}, ["enable"]),
    ],
)
def test_the_links_from_the_list_to_a_form_work_and_offer_effective_operations(
    console: Client, model: type[Model], values: dict[str, str], offered: list[str]
) -> None:
    model._default_manager.create(**values)
    [row] = followed(console, page(model, "changelist"), '/admin/[^"]+/change/[^"]*')
    forms = followed(console, row, f"{row.split('/change/')[0]}/(?:drain|enable|ban|lift)/")
    assert [url.split("/")[-2] for url in forms] == offered
    assert all(values["name"] in console.get(url).content.decode() for url in forms)


@pytest.mark.parametrize("url", ["/nowhere", "/admin/nowhere/"])
def test_an_error_has_a_detail_and_a_cure(console: Client, url: str) -> None:
    answer = console.get(url)
    html = answer.content.decode()
    assert answer.status_code == 404
    for message in (f"There is no {url} here", "Check the address", 'href="/admin/"', answer["X-Request-Id"]):
        assert message in html, message


def test_a_form_older_than_the_login_is_refused_with_a_message() -> None:
    answer = Client(enforce_csrf_checks=True).post("/admin/login/", {"username": "ana"})
    assert answer.status_code == 403
    assert "reload the page" in answer.content.decode()
