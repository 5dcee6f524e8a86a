"""Chains with toy payloads, whose requests are ended by the tests."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest

from chains_app.cwl.types import Workflow
from chains_app.models import Chain, Template
from chains_app.services.advancing import advance_chain
from chains_app.services.announcing import announce
from chains_app.services.sweeping import wake_chains
from chains_app.services.templates import activate_template, check_template
from chains_app.states import TemplateStatus
from requests_app.models import Request
from requests_app.states import RequestStatus
from tests.integration.chains.documents import LINEAR
from tests.integration.factories import make_template

RAW = "/Muons/Run2031A-v1/RAW"
SIGNED = {"actor": "user:ana", "reason": "a test"}


class FakeDbs:
    """DBS in memory, for the readiness of inputs and the ownership of outputs."""

    def __init__(self) -> None:
        self.access: dict[str, str] = {}
        self.opened: dict[str, frozenset[str]] = {}

    def dataset(self, name: str) -> Any:
        access = self.access.get(name)
        return None if access is None else type("Info", (), {"access_type": access})()

    def open_blocks(self, name: str) -> frozenset[str]:
        return self.opened.get(name, frozenset())

    def content(self, name: str) -> None:
        return None


@pytest.fixture
def fake_dbs(adapt: Any) -> FakeDbs:
    made = FakeDbs()
    made.access[RAW] = "VALID"
    adapt(dbs=made)
    return made


@cache
def checked(document: str) -> Workflow:
    """Return the workflow of a document. Each document is checked once, because that starts a process."""
    reading = check_template(document)
    assert reading.problems == []
    assert reading.workflow is not None
    return reading.workflow


def make_actual(document: str = LINEAR, name: str = "first", **values: Any) -> Template:
    """Create an actual template of this document."""
    older = Template.objects.filter(name=name)
    template = make_template(
        name, workflow=checked(document), version=older.count() + 1, status=TemplateStatus.LOADED, **values
    )
    return activate_template(template=template, **SIGNED)


def start(uid: str = "1", **values: Any) -> Chain:
    """Announce a dataset; return its newest chain."""
    announce(**({"uid": uid, "name": RAW, "actor": "user:ana"} | values))
    return Chain.objects.get(announcement__uid=uid)


def advanced(chain: Chain) -> Chain:
    advance_chain(chain.pk)
    chain.refresh_from_db()
    return chain


def end_request(
    chain: Chain, step: str, status: RequestStatus = RequestStatus.COMPLETED, **values: Any
) -> None:
    """Set the status of a step's requests, as the lifecycle does, and wake their chain."""
    rows = chain.steps.filter(step=step, request__isnull=False)
    assert rows, f"{step} has no request"
    Request.objects.filter(pk__in=rows.values("request")).update(status=status, **values)
    wake_chains()


def statuses(chain: Chain) -> dict[str, str]:
    return {str(step): step.status for step in chain.steps.all()}
