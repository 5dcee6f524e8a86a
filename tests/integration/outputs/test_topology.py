"""Sites and storages are many-to-many in CRIC, and planning uses both directions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from django.utils import timezone

from cms.rucio_session import connect
from dags_app.adapters import rucio
from dags_app.models import Workflow
from dags_app.services import production
from dags_app.services.input_files import resolve_input
from dags_app.states import SplittingAlgo
from sites_app.selectors import storage_at, usable_sites
from sites_app.services.site_settings import MEASURED, change_site, measure_storage, storage_used
from sites_app.services.sites import sync_sites
from tests.integration.factories import make_site, make_workflow

pytestmark = pytest.mark.django_db
SHARED = {"name": "T1_US_FNAL_Disk", "site": "T1_US_FNAL", "readers": ["T2_US_Purdue"]}


@pytest.fixture
def reader(lab: Any, settings: Any, tmp_path: Path) -> Workflow:
    """Return a workflow whose input is only at a storage that two sites read."""
    lab("PUT", "rses", [SHARED])
    sync_sites(now=timezone.now())
    settings.SUBMIT_ROOT = str(tmp_path)
    dataset = f"/Shared{timezone.now():%H%M%S%f}/Lab-v1/RAW"
    facts = {"size_bytes": 1000, "events": 10, "adler32": "0123abcd", "lumis": {"1": [[1, 1]]}}
    files = [{"lfn": f"/store/data/Lab{dataset}/{number}.root", **facts} for number in range(2)]
    block = {"name": f"{dataset}#1", "rses": ["T1_US_FNAL_Disk"], "files": files}
    lab("POST", "datasets", {"dataset": dataset, "blocks": [block]})
    workflow = make_workflow(
        input_dataset=dataset,
        splitting_algo=SplittingAlgo.FILE_BASED,
        splitting_params={"files_per_job": 1},
        payload_config={"kind": "toy"},
    )
    resolve_input(workflow=workflow, now=timezone.now())
    return workflow


def test_input_at_a_shared_storage_may_be_read_at_every_site_beside_it(reader: Workflow) -> None:
    sites = usable_sites(workflow=reader, now=timezone.now())
    assert sites.by_storage["T1_US_FNAL_Disk"] == {"T1_US_FNAL", "T2_US_Purdue"}
    dag = production.plan_round(workflow=reader, sites=sites, priority=0)
    text = "".join(path.read_text() for path in Path(dag.submit_dir).rglob("*.dag"))
    assert "T1_US_FNAL,T2_US_Purdue" in text
    assert "T2_CH_CERN" not in text


@pytest.mark.usefixtures("reader")
def test_jobs_write_to_the_storage_that_bears_their_sites_name() -> None:
    assert (storage_at("T2_US_Purdue"), storage_at("T1_US_FNAL")) == ("T2_US_Purdue", "T1_US_FNAL_Disk")
    make_site("T3_US_Guest", storage_elements=["T2_US_Nebraska", "T1_US_FNAL_Disk"])
    assert storage_at("T3_US_Guest") == "T1_US_FNAL_Disk"
    assert storage_at("T2_XX_Unknown") == "T2_XX_Unknown"


def test_storage_is_measured_unless_an_operator_set_it() -> None:
    site = make_site("T2_DE_DESY", config_data={"note": "kept"})
    make_site("T2_US_Nebraska")
    connect(rucio()._config).set_rse_usage("T2_DE_DESY", "storage", used=970, free=30)
    assert measure_storage() == 1
    site.refresh_from_db()
    assert site.config_data == {"note": "kept", MEASURED: 0.97}
    assert storage_used(site.config_data) == 0.97
    change_site(site=site, changes={"storage_used_fraction": 0.5}, actor="user:olga", reason="disks came")
    measure_storage()
    site.refresh_from_db()
    assert storage_used(site.config_data) == 0.5
    change_site(site=site, changes={"storage_used_fraction": None}, actor="user:olga", reason="measured now")
    assert storage_used(site.config_data) == 0.97
