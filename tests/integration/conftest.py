"""Clients for every role. Rows are made with tests.integration.factories."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.test import Client
from rest_framework.test import APIClient

from tests.integration.factories import make_token, make_user
from tests.integration.receiver import certificate, receiver
from wms2_project import redis_state
from wms2_project.access import throttles
from wms2_project.access.roles import Role
from wms2_project.observation import health, heartbeat

ApiAs = Callable[..., APIClient]
__all__ = ["ApiAs", "certificate", "receiver"]  # the last two are fixtures


@pytest.fixture(scope="session", autouse=True)
def _patient_with_redis() -> None:
    """Allow for a slow Redis on a busy machine; an absent one is tested with an unused port."""
    redis_state.TIMEOUT_SEC = throttles.TIMEOUT_SEC = 10.0


@pytest.fixture(autouse=True)
def _quick_passwords(settings: Any) -> None:
    """Use a fast password hash; a secure one takes a second of CPU time."""
    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]


@pytest.fixture(autouse=True)
def _fresh_throttles(settings: Any) -> Iterator[None]:
    """Reset the throttles, whose counts in Redis outlive a test."""
    redis_state._paused_until.clear()
    calls = throttles._limiter(settings.REDIS_URL).storage
    calls.reset()
    yield
    calls.reset()


@pytest.fixture
def own_health(monkeypatch: pytest.MonkeyPatch) -> None:
    """Check no outside service, and hide the workers of the stack."""
    monkeypatch.setattr(health, "_checks", {})
    monkeypatch.setattr(heartbeat, "_KEY", "wms2:test:workers:{}")


@pytest.fixture
def api_as(db: None) -> ApiAs:
    """Return a function that makes an API client with the token of a new user in this role."""

    def client(role: Role, username: str = "") -> APIClient:
        made = APIClient(raise_request_exception=False)
        if role is not Role.ANONYMOUS:
            token = make_token(make_user(username, role=role))
            made.credentials(HTTP_AUTHORIZATION=f"Bearer {token}")
        return made

    return client


@pytest.fixture
def viewer(api_as: ApiAs) -> APIClient:
    """Return an API client with the role viewer."""
    return api_as(Role.VIEWER, "vera")


@pytest.fixture
def requestor(api_as: ApiAs) -> APIClient:
    """Return an API client of the requestor ana."""
    return api_as(Role.REQUESTOR, "ana")


@pytest.fixture
def operator(api_as: ApiAs) -> APIClient:
    """Return an API client with the role operator."""
    return api_as(Role.OPERATOR, "olga")


@pytest.fixture
def console(db: None) -> Client:
    """Return a browser with a logged-in administrator."""
    browser = Client()
    browser.force_login(make_user("adam", role=Role.ADMIN))
    return browser
