"""The console's long lists read only the rows that they show."""

from __future__ import annotations

import pytest
from django.contrib import admin
from django.db import connection
from django.db.models import Model
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone

from chains_app.models import Chain
from dags_app.models import DAG, Round, Schedd
from outputs_app.models import OutputBlock, OutputDataset
from requests_app.models import Alert, Request
from requests_app.services.alerts import raise_alert
from tests.integration.factories import make_dag, make_request, make_round

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize(
    "model", [Request, Alert, Round, DAG, OutputDataset, OutputBlock], ids=lambda model: model.__name__
)
def test_an_index_has_the_order_of_every_long_list(model: type[Model]) -> None:
    with connection.cursor() as cursor:  # if there is another way
        cursor.execute("SET LOCAL enable_seqscan = off; SET LOCAL enable_sort = off")
    order = admin.site._registry[model].ordering or ()
    plan = model._default_manager.order_by(*order)[:50].explain()
    assert "Sort" not in plan, plan


def shown(console: Client, model: type[Model], query: str = "") -> tuple[str, list[str]]:
    """Return the page of the list and its queries."""
    url = reverse(f"admin:{model._meta.app_label}_{model._meta.model_name}_changelist")
    with CaptureQueriesContext(connection) as asked:
        answer = console.get(f"{url}?{query}")
    assert answer.status_code == 200
    return answer.content.decode(), [one["sql"] for one in asked]


def test_the_schedds_to_choose_from_are_not_gathered_from_all_dags(console: Client) -> None:
    Schedd.objects.create(name="first@pool")
    here = make_dag(make_round(make_request().workflow), schedd_name="first@pool")
    there = make_dag(make_round(make_request().workflow), schedd_name="gone@pool")
    page, asked = shown(console, DAG)
    assert "?schedd_name=first%40pool" in page
    assert not [sql for sql in asked if "DISTINCT" in sql]
    for name, seen, unseen in (("first@pool", here, there), ("gone@pool", there, here)):
        page, _ = shown(console, DAG, f"schedd_name={name}")
        assert (str(seen.pk) in page, str(unseen.pk) in page) == (True, False)


def test_the_kinds_to_choose_from_are_those_of_open_alerts(console: Client) -> None:
    raise_alert(request=make_request(), kind="long_ago", message="an old story")
    Alert.objects.update(closed_at=timezone.now())
    raise_alert(request=make_request(), kind="slow_dag", message="it takes long")
    page, asked = shown(console, Alert)
    assert ("?kind=slow_dag" in page, "?kind=long_ago" in page) == (True, False)
    assert not [sql for sql in asked if "DISTINCT" in sql]
    page, _ = shown(console, Alert, "kind=long_ago")
    assert ("an old story" in page, "it takes long" in page) == (True, False)


def test_an_empty_list_says_where_its_rows_come_from(console: Client) -> None:
    assert "starts a chain of each active template" in shown(console, Chain)[0]
    assert "starts a chain of each active template" not in shown(console, Chain, "q=muon")[0]
