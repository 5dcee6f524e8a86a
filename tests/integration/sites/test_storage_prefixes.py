"""Prefixes of the sites' storage, from the settings or Rucio, and their check by the doctor."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from io import StringIO
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.test import Client
from django.utils import timezone
from rest_framework.test import APIClient

from dags_app.services.storage_places import storage_files, storage_places
from sandbox.storage import Storage
from sites_app.models import Site
from sites_app.selectors import usable_sites
from sites_app.services.sites import sync_sites, update_prefixes
from tests.integration.factories import make_site, make_workflow
from tests.unit.sandbox.storage.conftest import serve
from tests.unit.sandbox.storage.webdav import Fault, Serve, Server, certificate
from wms2_project.errors import ServiceRejected, ServiceUnavailable

__all__ = ["serve"]
pytestmark = pytest.mark.django_db
CERN, DESY, FNAL = "T2_CH_CERN", "T2_DE_DESY", "T1_US_FNAL"
DAVS = ("davs://se.example.org/cms", "root://se.example.org//cms")


@pytest.fixture
def answers(adapt: Callable[..., None]) -> dict[str, Any]:
    """Return the simulated answers of Rucio by storage: prefixes or an error."""
    given: dict[str, Any] = {}

    def storage_prefixes(rse: str) -> tuple[str, ...]:
        answer = given.get(rse, ())
        if isinstance(answer, Exception):
            raise answer
        return tuple(answer)

    adapt(rucio=SimpleNamespace(storage_prefixes=storage_prefixes))
    return given


def known() -> dict[str, list[str]]:
    return dict(Site.objects.values_list("name", "storage_prefixes"))


def test_the_prefixes_of_the_output_storage_are_taken(answers: dict[str, Any]) -> None:
    make_site(FNAL, storage_elements=["T1_US_FNAL_Disk", "T1_US_FNAL_Tape"])
    answers |= {"T1_US_FNAL_Disk": DAVS, "T1_US_FNAL_Tape": ["davs://tape.example.org"]}
    assert update_prefixes() == 1
    assert known() == {FNAL: list(DAVS)}
    assert update_prefixes() == 0
    answers.clear()
    assert update_prefixes() == 1
    assert known() == {FNAL: []}


def test_a_refusal_at_one_storage_does_not_affect_the_others(answers: dict[str, Any]) -> None:
    make_site(CERN, storage_prefixes=["/old"])
    make_site(DESY)
    answers |= {CERN: ServiceRejected("no"), DESY: DAVS}
    update_prefixes()
    assert known() == {CERN: ["/old"], DESY: list(DAVS)}


@pytest.mark.usefixtures("world")
def test_without_rucio_the_sites_are_synchronised_all_the_same(
    adapt: Callable[..., None], client: Client
) -> None:
    def fail(rse: str) -> None:
        raise ServiceUnavailable("Rucio did not answer")

    make_site(CERN, storage_prefixes=["/old"])
    adapt(rucio=SimpleNamespace(storage_prefixes=fail))
    for _ in range(3):
        assert sync_sites(now=timezone.now()) == 4
    assert known()[CERN] == ["/old"]
    parts = client.get("/api/v1/health").json()["parts"]
    assert (parts["site_sync"], parts["site_storage"]) == ("ok", "down")


def test_the_api_shows_the_prefixes(viewer: APIClient) -> None:
    make_site(CERN, storage_prefixes=list(DAVS))
    assert viewer.get(f"/api/v1/sites/{CERN}").json()["storage_prefixes"] == list(DAVS)


def test_the_settings_go_before_rucio_and_the_default_comes_last(settings: Any) -> None:
    settings.SITE_STORAGE = {CERN: ["/own"]}
    settings.STORAGE_PREFIX = "/default/{site}"
    for name, prefixes in {CERN: DAVS, DESY: DAVS, FNAL: ()}.items():
        make_site(name, storage_prefixes=list(prefixes), status="disabled" if name == DESY else "enabled")
    pool = usable_sites(workflow=make_workflow(), now=timezone.now())
    places = storage_places(prefixes=pool.prefixes)
    assert [places.prefixes(site) for site in (CERN, DESY, FNAL)] == [("/own",), DAVS, (f"/default/{FNAL}",)]


def test_jobs_get_the_certificate_authorities(settings: Any, tmp_path: Path) -> None:
    settings.STORAGE_CA_FILE = ""
    assert [one.path for one in storage_files(prefixes={})] == ["storage.json"]
    settings.STORAGE_CA_FILE = str(certificate()[0])
    assert storage_files(prefixes={})[1].content == certificate()[0].read_bytes()


# The doctor


@pytest.fixture
def server(serve: Serve, adapt: Callable[..., None]) -> Server:
    """Return a storage at CERN, and the token for it."""
    made = serve()
    made.tokens = {"good"}
    make_site(CERN, storage_prefixes=[made.url])
    adapt(storage=Storage(token=lambda: "good", ca_file=str(certificate()[0]), pauses_sec=()))
    return made


def doctor() -> list[str]:
    """Run it and return its lines about storage."""
    out = StringIO()
    with suppress(CommandError):  # of what else it finds where no worker runs
        call_command("doctor", stdout=out)
    return [line for line in out.getvalue().splitlines() if line[8:].startswith("storage ")]


def test_the_doctor_tries_the_storage_of_every_open_site(server: Server, settings: Any) -> None:
    make_site(DESY, storage_prefixes=["davs://localhost:1"], status="disabled")
    (line,) = doctor()
    assert line.startswith(f"ok      storage {CERN} {server.url}: written, verified and deleted")
    assert server.methods() == ["PUT", "GET", "MOVE", "DELETE", "PROPFIND", "DELETE"]
    assert server.files() == []


@pytest.mark.parametrize(
    ("fault", "problem"),
    [
        (Fault("PUT", status=403, text="permission denied"), "403 permission denied"),
        (Fault("PUT", cut=True), "arrived"),
    ],
    ids=["denied", "cut"],
)
def test_the_doctor_finds_a_storage_that_does_not_work(server: Server, fault: Fault, problem: str) -> None:
    server.faults = [fault]
    (line,) = doctor()
    assert line.startswith(f"PROBLEM storage {CERN}")
    assert problem in line


def test_the_doctor_reports_checks_it_could_not_run(server: Server, adapt: Callable[..., None]) -> None:
    adapt(storage=Storage(token=str, ca_file=str(certificate()[0]), pauses_sec=()))
    (line,) = doctor()
    assert line.startswith("ok")
    assert "has no token" in line
    assert server.methods() == ["HEAD"]


def test_the_doctor_finds_sites_without_storage_and_missing_directories(
    settings: Any, tmp_path: Path
) -> None:
    settings.STORAGE_PREFIX, settings.SITE_STORAGE = "", {DESY: [f"{tmp_path}/none"], FNAL: [str(tmp_path)]}
    for name in (CERN, DESY, FNAL):
        make_site(name)
    lines = doctor()
    starts = [("ok", FNAL), ("PROBLEM", CERN), ("PROBLEM", DESY)]
    assert [(line.split()[0], line.split()[2].rstrip(":")) for line in lines[:3]] == starts
    assert "no storage prefix" in lines[1]
    assert "no such directory" in lines[2]
    assert list(tmp_path.rglob("*.part-*")) == []
