"""A submit directory, sites, and a planned round (tests.integration.recovery.factories)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from django.utils import timezone

from dags_app.services import production
from requests_app.states import RequestStatus
from sites_app.selectors import usable_sites
from tests.integration.factories import make_file, make_request, make_site, make_workflow
from tests.integration.recovery.factories import CERN, DESY, PURDUE, Round
from tests.stand_in import OwnFilesDbs


@pytest.fixture(autouse=True)
def _own_submit_root(settings: Any, tmp_path: Path, adapt: Callable[..., None]) -> None:
    settings.SUBMIT_ROOT = str(tmp_path)
    settings.STORAGE_PREFIX = "/srv/storage/{site}"
    adapt(dbs=OwnFilesDbs())  # these files are in no other


@pytest.fixture
def sites(db: None) -> None:
    for name in (CERN, DESY, PURDUE):
        make_site(name)


@pytest.fixture
def planned(sites: None) -> Callable[..., Round]:
    """Return a request with a planned first round of one file per job, by default two jobs per group."""

    def plan(places: Sequence[Sequence[str]], **values: Any) -> Round:
        values = {"splitting_params": {"files_per_job": 1}, "jobs_per_group": 2} | values
        workflow = make_workflow(**values)
        for number, locations in enumerate(places):
            lfn = f"/store/data/{workflow.request_name}/{number:03d}.root"
            make_file(workflow, lfn=lfn, locations=list(locations), lumis=[[1, number + 1, number + 1]])
        request = make_request(workflow=workflow, status=RequestStatus.ACTIVE)
        pool = usable_sites(workflow=workflow, now=timezone.now())
        production.plan_round(workflow=workflow, sites=pool, priority=0)
        return Round(request)

    return plan
