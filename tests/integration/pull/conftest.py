"""A pull request at two sites with storage, and a job that calls WMS2 as a runner does."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from requests_app.services.runners import geography, lending
from requests_app.states import RequestStatus
from tests.integration.factories import make_claim, make_request, make_site, make_workflow
from tests.integration.pull.factories import CERN, FNAL, add_files
from tests.integration.pull.worker_node import Wms2, WorkerNode, serving


@pytest.fixture(autouse=True)
def _nothing_kept() -> Iterator[None]:
    """Clear the caches of the process, which outlive a test."""
    geography.forget()
    lending._rucio_outage.cache_clear()
    yield
    geography.forget()


@pytest.fixture
def sites(db: None, tmp_path: Path, settings: Any) -> list[str]:
    """Return two sites whose storages are directories."""
    settings.SITE_STORAGE = {}
    for name in (CERN, FNAL):
        (tmp_path / name).mkdir()
        make_site(name)
        settings.SITE_STORAGE[name] = [str(tmp_path / name)]
    return [CERN, FNAL]


@pytest.fixture
def wms2(sites: list[str], settings: Any) -> Iterator[Wms2]:
    """Serve WMS2 to jobs."""
    settings.SUBMIT_ROOT = f"{settings.SUBMIT_ROOT}/test-{uuid4().hex}"
    with serving() as served:
        settings.JOBS_URL = served.url
        yield served


@pytest.fixture
def worker_node(wms2: Wms2, tmp_path: Path) -> Iterator[WorkerNode]:
    """Yield a worker node for a pull workflow of three files at CERN, of which the payload is not set yet."""
    workflow = make_workflow(allocation="pull", pull_jobs=1)
    make_claim(workflow, workflow.output_datasets[0])
    make_request(workflow=workflow, status=RequestStatus.ACTIVE)
    add_files(workflow, [[CERN]] * 3)
    node = WorkerNode(tmp_path / "node", workflow)
    yield node
    node.kill()
