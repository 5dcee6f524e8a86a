"""A workflow with real input in the lab's CMS, and a site to run it at."""

from __future__ import annotations

import os
from typing import Any
from uuid import uuid4

import pytest
from django.utils import timezone

from dags_app.models import Workflow
from dags_app.planning.types import SitePool
from dags_app.services.input_files import resolve_input
from lab.seed.__main__ import seed
from lab.seed.documents import copy_of
from lab.seed.storage import Storage
from requests_app.models import Request
from requests_app.services.importing import import_request
from sites_app.selectors import usable_sites
from sites_app.services.sites import sync_sites


@pytest.fixture(scope="session")
def samples() -> list[dict[str, Any]]:
    """Return the lab's sample requests, with their input data registered."""
    suffix = f"i{uuid4().hex[:9]}"
    return seed(os.environ["WMS2_LAB_CMS_URL"], Storage(os.environ["WMS2_LAB_STORAGE_PREFIX"]), suffix)


@pytest.fixture
def documents(samples: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return them with new output datasets, because DBS keeps those of earlier tests."""
    mark = f"t{uuid4().hex[:9]}"
    return [copy_of(document, mark) for document in samples]


@pytest.fixture(autouse=True)
def _first_schedd_only(settings: Any) -> None:
    settings.SCHEDDS = []


@pytest.fixture(autouse=True)
def _own_submit_root(settings: Any) -> None:
    settings.SUBMIT_ROOT = f"{settings.SUBMIT_ROOT}/test-{uuid4().hex}"


@pytest.fixture
def request_(documents: list[dict[str, Any]], db: None) -> Request:
    """Return the urgent sample request, imported, with resolved input."""
    made, _ = import_request(document=documents[2], actor="user:olga", on_behalf=True)
    sync_sites(now=timezone.now())
    resolve_input(workflow=made.workflow, now=timezone.now())
    return made


@pytest.fixture
def workflow(request_: Request) -> Workflow:
    return request_.workflow


@pytest.fixture
def sites(workflow: Workflow) -> SitePool:
    return usable_sites(workflow=workflow, now=timezone.now())
