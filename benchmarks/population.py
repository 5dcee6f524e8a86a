"""Two databases for the pages: a million requests and a thousand; the newest requests are running."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

import psycopg
from django.conf import settings
from django.contrib.auth import SESSION_KEY
from django.contrib.auth.models import User
from django.test import Client

from benchmarks.database import Databases, databases
from benchmarks.rows import add_requests, add_work, first_request
from benchmarks.run import Run
from wms2_project.access.tokens import issue_token

MANY, FEW = 1_000_000, 1000
PAGE = 50
DEEP_PAGE = 10_000
AT_WORK = 200  # newest requests with rounds, files and outputs; as many around the deep page


@dataclass(frozen=True, slots=True)
class Population:
    """The databases, and a browser session and a token that are valid in both."""

    databases: Databases
    many: str
    few: str
    rows: int  # in `many`
    deep: int  # the number of the first request of the deep page
    token: str
    browser: Client


@contextmanager
def _populate(run: Run) -> Iterator[Population]:
    made = databases(run)
    source = made.copy("people")
    made.use(source)
    operator = User.objects.create_superuser("operator")
    token = issue_token(user=operator, name="benchmark", actor="system:benchmark", reason="a benchmark")
    browser = Client(headers={"host": settings.ALLOWED_HOSTS[0]})
    browser.force_login(operator)
    assert SESSION_KEY in browser.session
    rows = run.size(MANY, 5000)
    deep = rows - run.size(DEEP_PAGE, 50) * PAGE
    many = made.copy("many", of=source)
    few = made.copy("few", of=source)
    _fill(made, few, rows=run.size(FEW, 500))
    _fill(made, many, rows=rows, deep=deep)
    yield Population(made, many, few, rows, deep, token, browser)


def _fill(made: Databases, name: str, *, rows: int, deep: int | None = None) -> None:
    made.use(name)
    with made.connect(name) as server:
        hurry(server)
        add_requests(server, first_request(), count=rows)
        for last in (rows, deep):
            if last is not None:
                add_work(server, first=last - AT_WORK + 1, last=last)
        server.execute("VACUUM ANALYZE")


def hurry(server: psycopg.Connection[Any]) -> None:
    """Switch off waits for the disk and, if permitted, checks of foreign keys: the rows are consistent."""
    server.execute("SET synchronous_commit = off")
    with suppress(psycopg.errors.InsufficientPrivilege):
        server.execute("SET session_replication_role = replica")


def population(run: Run) -> Population:
    """Return the databases of this run, filled at the first call."""
    return run.shared("population", lambda: _populate(run))


def content(browser: Client, path: str, **headers: Any) -> bytes:
    """Return the body of the page. Raise unless its status is 200."""
    answer = browser.get(path, headers=headers or None)
    assert answer.status_code == 200, f"{path} answered {answer.status_code}"
    return bytes(answer.content)
