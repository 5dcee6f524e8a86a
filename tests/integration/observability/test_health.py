"""Health: one bounded check per part, queue and service; details for authorised callers."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from django.db import connection
from django.test import Client
from rest_framework.test import APIClient

from condor.fake import FakePool
from dags_app import health as outside
from requests_app.states import RequestStatus
from tests.integration.factories import ago, make_request
from wms2_project import redis_state
from wms2_project.locks import lock_key
from wms2_project.observation import health, heartbeat
from wms2_project.observation.health import Check

pytestmark = pytest.mark.django_db
ALL_QUEUES = ("lifecycle", "planning", "condor", "outputs")


@pytest.fixture(autouse=True)
def _no_worker(own_health: None) -> Iterator[None]:
    heartbeat.silence("w@test", ALL_QUEUES)
    yield
    heartbeat.silence("w@test", ALL_QUEUES)


def parts(client: Client) -> dict[str, str]:
    return dict(client.get("/api/v1/health").json()["parts"])


def test_workers_are_reported_per_queue(client: Client) -> None:
    heartbeat.beat("w@test", ("lifecycle", "condor"))
    result = parts(client)
    assert (result["workers.lifecycle"], result["workers.condor"]) == ("ok", "ok")
    assert (result["workers.planning"], result["workers.outputs"]) == ("down", "down")
    assert client.get("/api/v1/health").json()["status"] == "degraded"


def test_a_silent_worker_is_a_dead_one(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    heartbeat.beat("w@test", ALL_QUEUES)
    monkeypatch.setattr(heartbeat, "ALIVE_SEC", -1.0)
    assert parts(client)["workers.lifecycle"] == "down"


def test_the_leading_beat_is_seen_by_its_lock(client: Client) -> None:
    assert parts(client)["beat"] == "down"
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_lock(%s)", [lock_key("beat-leader")])
        assert parts(client)["beat"] == "ok"
        cursor.execute("SELECT pg_advisory_unlock(%s)", [lock_key("beat-leader")])


def test_a_lagging_sweep_is_reported(client: Client, viewer: APIClient) -> None:
    assert parts(client)["sweep"] == "ok"
    make_request(status=RequestStatus.QUEUED, next_check_at=ago(minutes=5))
    assert parts(client)["sweep"] == "down"
    sweep = next(part for part in viewer.get("/api/v1/status").json()["parts"] if part["name"] == "sweep")
    assert "waiting for" in sweep["detail"]


def test_registered_checks_run_side_by_side_and_within_their_time(client: Client) -> None:
    release = threading.Event()

    def hangs() -> str:
        release.wait(120)
        return ""

    def breaks() -> str:
        raise OSError("db-17.internal refuses")

    checks = (("slow", hangs, 0.3), ("slower", hangs, 0.3), ("broken", breaks, 60.0), ("fine", str, 60.0))
    for name, ask, seconds in checks:
        health.register(Check(name, ask, timeout_sec=seconds))
    began = time.monotonic()
    answer = client.get("/api/v1/health")
    took = time.monotonic() - began
    release.set()
    body = answer.json()["parts"]
    assert {name: body[name] for name in ("slow", "slower", "broken", "fine")} == {
        "slow": "down",
        "slower": "down",
        "broken": "down",
        "fine": "ok",
    }
    assert took < 60  # not the 120 s of those that hang
    assert "internal" not in answer.content.decode()  # public; the cause is in /status


def test_a_recent_result_of_a_check_is_reused(client: Client) -> None:
    asked: list[int] = []
    health.register(Check("service", lambda: asked.append(1) or "", timeout_sec=60, keep_sec=3600))
    for _ in range(3):
        parts(client)
    assert len(asked) == 1


def test_without_redis_health_still_answers(client: Client, settings: Any) -> None:
    settings.REDIS_URL = "redis://127.0.0.1:1/0"
    result = parts(client)
    assert (result["redis"], result["workers.lifecycle"], result["database"]) == ("down", "down", "ok")


def test_an_outage_of_redis_costs_one_try_and_then_a_pause(
    settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.REDIS_URL = "redis://127.0.0.1:1/9"
    monkeypatch.setattr(redis_state, "PAUSE_SEC", 3600.0)
    tries: list[int] = []

    def ping(client: Any) -> str:
        tries.append(1)
        return str(client.ping())

    assert [redis_state.ask(ping, otherwise="away") for _ in range(3)] == ["away"] * 3
    assert len(tries) == 1


@pytest.mark.parametrize(("hours", "words"), [(48, ""), (3, "renew it"), (-3, "renew it")])
def test_a_certificate_is_reported_before_it_expires(
    tmp_path: Path, settings: Any, hours: int, words: str
) -> None:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "Robot: wms2")])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder(name, name, key.public_key(), 1)
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(hours=hours))
        .sign(key, hashes.SHA256())
    )
    path = tmp_path / "proxy.pem"
    path.write_bytes(made.public_bytes(serialization.Encoding.PEM))
    settings.CMS_SERVICES = settings.CMS_SERVICES | {"client_cert": str(path)}
    assert words in outside._credentials_end()
    assert bool(outside._credentials_end()) == bool(words)


def test_every_schedd_is_checked_and_the_silent_ones_are_named(fake_pool: FakePool, settings: Any) -> None:
    """The answers of schedds are tested in tests/e2e, here the calls and the names."""
    fake_pool["b@pool"].silence()
    settings.SCHEDDS = ["a@pool", "b@pool"]
    assert outside._schedds_silent() == "no answer from b@pool"
    settings.SCHEDDS = []
    assert outside._schedds_silent() == ""
