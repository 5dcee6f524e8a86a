"""The search of the palette finds names by any part, offers actions by role and state, and stays bounded."""

from __future__ import annotations

import pytest
from django.db import connection
from django.test import Client
from django.urls import reverse

from console.search.selector import MOST, has_trigrams, search
from requests_app.models import Request
from requests_app.states import RequestStatus
from tests.integration.factories import make_block, make_group, make_request, make_round, make_site, make_user
from wms2_project.access.roles import Role
from wms2_project.console import address_of

pytestmark = pytest.mark.django_db
S = RequestStatus


def found(text: str, role: Role = Role.OPERATOR) -> dict[str, list[str]]:
    kinds: dict[str, list[str]] = {}
    for hit in search(text, role=role):
        kinds.setdefault(hit.kind, []).append(hit.text)
    return kinds


def test_names_are_found_by_their_beginning_and_by_any_part_of_them() -> None:
    has_trigrams.cache_clear()
    first = make_request(request_name="ana_Run2031A_Muon_0001")
    second = make_request(request_name="bruno_ana_0002")
    make_site("T2_CH_CERN")
    make_block(make_group(make_round(first.workflow)))
    assert found("ana_")["request"][0] == first.request_name
    assert found("cern")["site"] == ["T2_CH_CERN"]
    assert found("/Muons/")["dataset"] == ["/Muons/Run2031A-First-v1/AOD"]
    assert found("audi")["page"] == ["Audit"]
    if has_trigrams():
        assert second.request_name in found("ANA_00")["request"]


def test_actions_are_those_the_state_allows_with_a_link_to_their_form() -> None:
    row = make_request(request_name="ana_0001", status=S.HELD)
    make_request(request_name="ana_0002", status=S.COMPLETED)
    (hit,) = [one for one in search("release ana_", role=Role.OPERATOR) if one.kind == "action"]
    assert (hit.text, hit.url) == (
        "Release ana_0001",
        address_of("admin:requests_app_request_release", row.pk),
    )
    assert "action" not in found("release ana_", Role.VIEWER)
    assert found("release")["action"] == ["Release ana_0001"]
    assert "action" not in found("relea")
    make_site("T2_CH_CERN")
    assert found("drain cern")["action"] == ["Drain T2_CH_CERN"]


def test_results_are_bounded_and_text_is_only_text() -> None:
    for number in range(MOST + 3):
        make_request(request_name=f"many_{number:04d}")
    assert len(found("many")["request"]) == MOST
    for hostile in ("'; DROP TABLE requests_app_request; --", "%", "_", "\0", "\\", "a" * 5000, "<script>"):
        assert isinstance(search(hostile, role=Role.ADMIN), list)
    assert Request.objects.count() == MOST + 3
    assert "request" not in found("%any")


def test_the_plan_of_a_search_by_part_uses_the_index() -> None:
    if not has_trigrams():
        pytest.skip("this PostgreSQL has no pg_trgm")
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL enable_seqscan = off")
        query = Request.objects.filter(request_name__icontains="muon").values("pk")
        plan = query.explain()
    assert "request_name_trigram" in plan


def test_the_view_needs_the_role_viewer() -> None:
    browser = Client()
    assert browser.get(reverse("console:search")).status_code == 302
    browser.force_login(make_user(role=Role.VIEWER, is_staff=True))
    answer = browser.get(reverse("console:search"), {"q": "home"})
    assert answer.json()["hits"][0]["text"] == "Home"
