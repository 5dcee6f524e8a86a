"""Unreported statuses are found without reading every request that ended long ago."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from requests_app.models import Request
from requests_app.services import reqmgr2_reports
from requests_app.states import RequestStatus as S
from tests.integration.factories import ago, make_request

pytestmark = pytest.mark.django_db


def test_open_requests_and_those_that_ended_lately_are_reported() -> None:
    wanted = {
        make_request(status=S.ACTIVE, source="reqmgr2", status_since=ago(days=90)).pk,
        make_request(status=S.COMPLETED, source="reqmgr2", status_since=ago(days=6)).pk,
    }
    make_request(status=S.COMPLETED, source="reqmgr2", status_since=ago(days=8))
    make_request(status=S.HELD, source="reqmgr2")
    make_request(status=S.ACTIVE)
    assert {row.pk for row in reqmgr2_reports._unreported(timezone.now())} == wanted


def test_requests_that_ended_long_ago_are_not_read(settings: Any) -> None:
    settings.REQMGR2_WRITE_BACK = True
    for _ in range(200):
        make_request(status=S.COMPLETED, source="reqmgr2", status_since=ago(days=90))
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE requests_app_request; SET LOCAL enable_seqscan = off")
    with CaptureQueriesContext(connection) as asked:
        reqmgr2_reports.report_statuses(now=timezone.now())
    over_requests = [one["sql"] for one in asked if Request._meta.db_table in one["sql"]]
    plans = []
    with connection.cursor() as cursor:
        for sql in over_requests:
            cursor.execute(f"EXPLAIN {sql}")
            plans.append("\n".join(row[0] for row in cursor.fetchall()))
    assert any("request_ended" in plan for plan in plans), plans
    assert not any("Seq Scan on requests_app_request" in plan for plan in plans), plans
