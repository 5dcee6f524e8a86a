"""Fragments of pages: served by address with an ETag, to the roles that may see them."""

from __future__ import annotations

import re
from html import unescape

import pytest
from django.test import Client
from django.urls import reverse

from console.pages import FRAGMENTS
from requests_app.states import RequestStatus
from tests.integration.factories import make_request, make_user
from wms2_project.access.roles import Role

pytestmark = pytest.mark.django_db
HOME = reverse("console:fragment", args=["home"])


def test_an_unchanged_fragment_is_not_sent_again(console: Client) -> None:
    first = console.get(HOME)
    again = console.get(HOME, headers={"If-None-Match": first["ETag"]})
    assert (first.status_code, again.status_code, again.content) == (200, 304, b"")


def test_a_changed_fragment_is_sent(console: Client) -> None:
    first = console.get(HOME)
    row = make_request(status=RequestStatus.HELD, last_error="no site left")
    again = console.get(HOME, headers={"If-None-Match": first["ETag"]})
    assert again.status_code == 200
    assert row.request_name in again.content.decode()


def test_a_region_of_a_page_names_its_address_and_version(console: Client) -> None:
    html = console.get(reverse("admin:index")).content.decode()
    found = re.search(r'data-live="home" data-of="" data-url="([^"]+)" data-etag="([^"]+)"', html)
    assert found is not None
    answer = console.get(unescape(found[1]), headers={"If-None-Match": unescape(found[2])})
    assert answer.status_code == 304


def test_fragments_are_behind_the_login(client: Client) -> None:
    assert client.get(HOME).status_code == 302
    client.force_login(make_user(role=Role.REQUESTOR))  # not staff
    assert client.get(HOME).status_code == 302


def test_an_unknown_fragment_is_not_found(console: Client) -> None:
    assert console.get(reverse("console:fragment", args=["nothing"])).status_code == 404


@pytest.mark.parametrize("name", FRAGMENTS)
def test_every_fragment_names_topics(name: str) -> None:
    assert FRAGMENTS[name].topics("x")
