"""The whole stack, as `./wms2 test` started it: real PostgreSQL, Redis, Celery, HTCondor, and a small CMS."""

from __future__ import annotations

import json
import os
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from uuid import uuid4

import pytest
import requests
from django.db import connection

from cms.types import DatasetFile
from dags_app.adapters import dbs
from lab.seed.__main__ import seed
from lab.seed.storage import Storage
from lab.toy.eventfile import read_events
from tests.integration.receiver import certificate

__all__ = ["certificate"]  # a fixture

Json = dict[str, Any]
TERMINAL = {"completed", "held", "failed", "aborted"}


def setting(name: str) -> str:
    value = os.environ.get(name)
    if not value:
        pytest.fail(f"{name} is not set: run these tests with ./wms2 test --tier e2e")
    return value


class Stack:
    """Access to the running stack: API, storage and processes."""

    def __init__(self) -> None:
        self.url, self.state = setting("WMS2_URL"), Path(setting("WMS2_STATE"))
        self.storage_prefix = setting("WMS2_LAB_STORAGE_PREFIX")  # of files on this machine
        self.cms_url = setting("WMS2_LAB_CMS_URL")
        self.api = requests.Session()
        self.api.headers["Authorization"] = f"Bearer {setting('WMS2_TOKEN')}"

    def get(self, path: str) -> Json:
        answer = self.api.get(f"{self.url}/api/v1/{path}", timeout=30)
        assert answer.status_code == 200, answer.text
        return dict(answer.json())

    def post(self, path: str, body: Json, *, expect: int = 201) -> Json:
        answer = self.api.post(f"{self.url}/api/v1/{path}", json=body, timeout=30)
        assert answer.status_code == expect, answer.text
        return dict(answer.json())

    def wait_for(self, name: str, *statuses: str, timeout: float = 1500) -> Json:
        """Return the request once it has one of the statuses. Fail at once if it ended in another."""
        end = time.monotonic() + timeout
        while time.monotonic() < end:
            seen = self.get(f"requests/{name}")
            if seen["status"] in statuses:
                return seen
            assert seen["status"] not in TERMINAL, json.dumps(seen, indent=1)
            time.sleep(0.5)
        pytest.fail(f"{name} is still {seen['status']} ({seen['wait_reason']}) after {timeout} s")

    def status_changes(self, name: str) -> list[Json]:
        rows = self.get(f"requests/{name}/timeline")["results"]
        return [row for row in rows if row["kind"] == "status"]

    def pid_of(self, service: str) -> int:
        """Return the main process of a service, from the state of the supervisor."""
        state = json.loads((self.state / "run" / "state.json").read_text())
        return next(int(one["pid"]) for one in state["services"] if one["name"] == service)

    def seed(self, suffix: str) -> list[Json]:
        """Create fresh input data; return the three sample requests for it."""
        return seed(self.cms_url, Storage(self.storage_prefix), suffix)

    def lab_files(self, dataset: str) -> list[DatasetFile]:
        """Return the files of a dataset from the lab's DBS."""
        return list(dbs().files(dataset))

    def events_in(self, lfn: str, site: str) -> Counter[tuple[int, int, int]]:
        path = Path(self.storage_prefix.replace("{site}", site) + lfn)
        return Counter((event.run, event.lumi, event.event) for event in read_events(path))


@pytest.fixture(autouse=True)
def _live_database(django_db_blocker: Any) -> Iterator[None]:
    """Connect to the running stack's own database instead of a test database."""
    given = connection.settings_dict["NAME"]
    connection.close()
    connection.settings_dict["NAME"] = urlsplit(setting("DATABASE_URL")).path.lstrip("/")
    with django_db_blocker.unblock():
        yield
        connection.close()
    connection.settings_dict["NAME"] = given


@pytest.fixture(scope="session")
def stack() -> Stack:
    return Stack()


@pytest.fixture
def suffix() -> str:
    return f"e{uuid4().hex[:9]}"


@pytest.fixture(scope="session")
def completed(stack: Stack) -> Callable[[str], Json]:
    """Return the three sample requests, run to the end once for all tests of the result."""
    documents = stack.seed(f"s{uuid4().hex[:9]}")
    names = [stack.post("requests", document)["request_name"] for document in documents]
    done = {name: stack.wait_for(name, "completed") for name in names}
    by_kind = dict(zip(("data", "generated", "urgent"), names, strict=True))
    return lambda kind: done[by_kind[kind]]
