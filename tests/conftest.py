"""Fixtures of all tests: default signals, a database per lane, untimed examples, injected adapters."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import environ
import pytest
from django.conf import settings as django_settings
from django.db import connection, connections
from django.test import TransactionTestCase
from hypothesis import HealthCheck
from hypothesis import settings as hypothesis_settings

from condor.fake import FakePool, FakeSchedd
from dags_app.adapters import use_adapters
from lab.lanes import lane_name
from lab.processes import default_signals
from lab.services.postgres import MIGRATED_COPY
from tests.emptying import empty_tables

RUN_URL = "WMS2_TEST_RUN_DATABASE_URL"  # the role the stack's processes run as
OWNER_URL = "WMS2_MIGRATE_DATABASE_URL"


def _become_owner() -> None:
    """Connect as the owner of the tables: tests create databases, migrate and empty tables."""
    owner = os.environ.get(OWNER_URL)
    if owner and owner != os.environ["DATABASE_URL"]:
        os.environ[RUN_URL], os.environ["DATABASE_URL"] = os.environ["DATABASE_URL"], owner
        own = environ.Env().db("DATABASE_URL")
        django_settings.DATABASES["default"] |= {name: own[name] for name in ("USER", "PASSWORD")}


_become_owner()
django_settings.TOKEN_ISSUER = ""  # the stack has one; a test whose jobs need tokens sets it
# Most tests report merged files that are on no storage. Tests of the output check switch it on; the processes
# of the stack, which the e2e tests and the faults use, have it on like any other.
django_settings.CHECK_OUTPUTS = False
# On a busy machine a test may compute for minutes between two statements.
django_settings.DATABASES["default"]["OPTIONS"]["options"] += " -c idle_in_transaction_session_timeout=0"
default_signals()
setattr(TransactionTestCase, "_fixture_teardown", lambda _test: empty_tables())  # noqa: B010 - a method
# On a busy machine any example may take long; what is too slow is the benchmarks' business. Examples are kept
# nowhere: a run depends on no earlier one and writes nothing into the checkout.
hypothesis_settings.register_profile(
    "wms2", deadline=None, database=None, suppress_health_check=[HealthCheck.too_slow]
)
hypothesis_settings.load_profile("wms2")


@pytest.fixture(scope="session")
def django_db_modify_db_settings(django_db_modify_db_settings_parallel_suffix: None) -> None:
    """Add the lane's suffix to that of pytest-django; copy the migrated database if the stack has one."""
    settings, lane = connections["default"].settings_dict, lane_name()
    if lane:
        settings["TEST"]["NAME"] = f"{settings['TEST'].get('NAME') or 'test_' + settings['NAME']}_{lane}"
    settings["TEST"]["TEMPLATE"] = os.environ.get(MIGRATED_COPY)


@pytest.fixture(scope="session")
def django_db_setup(django_db_setup: None, django_db_blocker: Any) -> None:
    """Allow the audit table to be emptied after tests that commit."""
    with django_db_blocker.unblock(), connection.cursor() as cursor:
        cursor.execute("ALTER TABLE wms2_project_auditevent DISABLE TRIGGER audit_event_kept")


@pytest.fixture
def adapt() -> Iterator[Callable[..., None]]:
    """Yield a function that injects adapters until the end of the test."""
    with ExitStack() as stack:
        yield lambda **given: stack.enter_context(use_adapters(**given))


@pytest.fixture
def fake_schedd(adapt: Callable[..., None]) -> FakeSchedd:
    """Return a schedd in memory that answers for every name."""
    made = FakeSchedd()
    adapt(schedd=made)
    return made


@pytest.fixture
def fake_pool(adapt: Callable[..., None]) -> FakePool:
    """Return schedds in memory, one for each name."""
    made = FakePool()
    adapt(schedd=made)
    return made
