"""An address of the console with a made-up id is a 404 for every action and id."""

from __future__ import annotations

from urllib.parse import quote

import pytest
from django.contrib import admin
from django.test import Client
from django.urls import reverse

from wms2_project.console import ReadOnlyAdmin
from wms2_project.operations.console import OperationAdmin

pytestmark = pytest.mark.django_db
IDS = ["junk", "9" * 30, "00000000-0000-4000-8000-000000000000", "a\0b", "_00", "../../x", "_2F", "'; --"]
ACTIONS = [
    f"admin:{model._meta.app_label}_{model._meta.model_name}_{name}"
    for model, page in admin.site._registry.items()
    if isinstance(page, ReadOnlyAdmin)
    for name in page.actions_detail
]


def test_there_are_actions_to_try() -> None:
    assert len(ACTIONS) > 15


@pytest.mark.parametrize("action", ACTIONS)
def test_an_action_on_a_missing_object_is_a_404(console: Client, action: str) -> None:
    console.raise_request_exception = False
    place = reverse(action, args=["PLACE"])
    answers = {"_confirmed": "1", "reason": "a test"}
    for made_up in IDS:
        url = place.replace("PLACE", quote(made_up, safe=""))
        result = (console.get(url).status_code, console.post(url, answers).status_code)
        assert result == (404, 404), (url, result)


@pytest.mark.parametrize("made_up", IDS)
def test_a_page_of_a_missing_object_is_not_a_server_error(console: Client, made_up: str) -> None:
    console.raise_request_exception = False
    for model, page in admin.site._registry.items():
        if isinstance(page, ReadOnlyAdmin):
            place = reverse(f"admin:{model._meta.app_label}_{model._meta.model_name}_change", args=["PLACE"])
            answer = console.get(place.replace("PLACE", quote(made_up, safe="")))
            # pages with operations read the row before Django does, which leads to its index
            status = 404 if isinstance(page, OperationAdmin) else 302
            assert answer.status_code == status, place
