"""The token of a request's jobs against real storage: it gives no access to the files of another request.

Ana's jobs attack Ben's files with the token that WMS2 obtained for Ana's workflow: one attempt per test, and
the same from a payload on the pool.
"""

from __future__ import annotations

import http.client
import json
import os
import shutil
import ssl
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from dags_app.adapters import build_token_issuer, schedd
from dags_app.models import Workflow
from dags_app.planning.types import SitePool
from dags_app.services import credentials, production
from lab.grid.description import VARIABLE, Grid
from tests.contract.grid.webdav import Client
from tests.integration.factories import make_file, make_workflow
from tests.pool_dags import pool_sites
from tests.waiting import until

# The job is waited for: not inside a transaction, which PostgreSQL would end.
pytestmark = pytest.mark.django_db(transaction=True)
SITE = "T2_CH_CERN"
CONTENT = b"the work of another request"
FORBIDDEN = 403


@dataclass(frozen=True)
class Person:
    """A request's workflow and the directories that belong to it."""

    workflow: Workflow
    merged: str
    unmerged: str
    input: str


@dataclass(frozen=True)
class Scene:
    """Ana's token, Ben's files, and the storage that holds them."""

    client: Client
    ana: Person
    ben: Person
    token: str

    def attempt(self, method: str, lfn: str, *, body: bytes = b"", **headers: str) -> int:
        return self.client.ask(method, SITE, lfn, token=self.token, body=body, **headers).status_code

    def raw(self, method: str, path: str, body: bytes = b"") -> int:
        """Send the path unchanged; other clients normalise it."""
        context = ssl.create_default_context(cafile=self.client.grid.ca)
        connection = http.client.HTTPSConnection(
            "localhost", self.client.site(SITE).port, timeout=60, context=context
        )
        try:
            connection.request(method, path, body=body, headers={"Authorization": f"Bearer {self.token}"})
            return connection.getresponse().status
        finally:
            connection.close()

    def is_intact(self) -> bool:
        """Return whether Ben's files are unchanged, without further files."""
        site = self.client.site(SITE)
        for directory in (self.ben.merged, self.ben.unmerged):
            found = {path.name: path.read_bytes() for path in site.path(directory).iterdir()}
            if found != {"a.root": CONTENT}:
                return False
        return True


def make_person(client: Client, word: str) -> Person:
    """Make a workflow with output files and an input file on the storage."""
    dataset = f"/Hostile/Era{word}-Test-v1/AOD"
    workflow = make_workflow(output_datasets=[dataset], memory_mb=256)
    base = f"Era{word}/Hostile/AOD/Test-v1"
    merged, unmerged = f"/store/data/{base}", f"/store/unmerged/{base}/{workflow.pk}"
    source = f"/store/data/Input{word}/Hostile/RAW/v1/in.root"
    make_file(workflow, lfn=source)
    for lfn in (f"{merged}/a.root", f"{unmerged}/a.root", source):
        path = client.site(SITE).path(lfn)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(CONTENT)
    return Person(workflow, merged, unmerged, source)


@pytest.fixture
def scene(settings: Any) -> Iterator[Scene]:
    grid = Grid.load(Path(os.environ[VARIABLE]))
    settings.TOKEN_ISSUER = grid.issuer
    client, word = Client(grid), uuid4().hex[:10]
    ana, ben = make_person(client, f"{word}A"), make_person(client, f"{word}B")
    issued = build_token_issuer().obtain(credentials.workflow_scopes(workflow=ana.workflow))
    yield Scene(client, ana, ben, issued.value)
    for area in ("data", "unmerged"):
        for path in client.site(SITE).path(f"/store/{area}").glob(f"*{word}*"):
            shutil.rmtree(path)


def test_the_token_permits_the_accesses_of_the_workflow(scene: Scene) -> None:
    """This shows that the refusals below are not caused by a broken token."""
    for directory in (scene.ana.merged, scene.ana.unmerged):
        assert scene.attempt("PUT", f"{directory}/b.root", body=b"x") == 201
        assert scene.attempt("GET", f"{directory}/b.root") == 200
        assert scene.attempt("DELETE", f"{directory}/b.root") == 200
    assert scene.attempt("PUT", f"{scene.ana.unmerged}/mg_000000_r0/proc_000000.root", body=b"x") == 201
    assert scene.attempt("GET", scene.ana.input) == 200


@pytest.mark.parametrize("area", ["merged", "unmerged"])
def test_outputs_of_another_request_cannot_be_read(scene: Scene, area: str) -> None:
    assert scene.attempt("GET", f"{getattr(scene.ben, area)}/a.root") == FORBIDDEN


@pytest.mark.parametrize("area", ["merged", "unmerged"])
def test_outputs_of_another_request_cannot_be_listed(scene: Scene, area: str) -> None:
    assert scene.attempt("PROPFIND", getattr(scene.ben, area), Depth="1") == FORBIDDEN


@pytest.mark.parametrize("area", ["merged", "unmerged"])
def test_outputs_of_another_request_cannot_be_overwritten(scene: Scene, area: str) -> None:
    assert scene.attempt("PUT", f"{getattr(scene.ben, area)}/a.root", body=b"x") == FORBIDDEN
    assert scene.is_intact()


@pytest.mark.parametrize("area", ["merged", "unmerged"])
def test_nothing_can_be_added_to_outputs_of_another_request(scene: Scene, area: str) -> None:
    assert scene.attempt("PUT", f"{getattr(scene.ben, area)}/evil.root", body=b"x") == FORBIDDEN
    assert scene.is_intact()


@pytest.mark.parametrize("area", ["merged", "unmerged"])
def test_outputs_of_another_request_cannot_be_deleted(scene: Scene, area: str) -> None:
    assert scene.attempt("DELETE", f"{getattr(scene.ben, area)}/a.root") == FORBIDDEN
    assert scene.is_intact()


def test_the_directory_of_another_request_cannot_be_deleted(scene: Scene) -> None:
    assert scene.attempt("DELETE", scene.ben.unmerged) == FORBIDDEN
    assert scene.is_intact()


def test_an_own_file_cannot_be_renamed_into_outputs_of_another_request(scene: Scene) -> None:
    target = scene.client.url(SITE, f"{scene.ben.merged}/evil.root")
    status = scene.attempt("MOVE", f"{scene.ana.merged}/a.root", Destination=target, Overwrite="T")

    assert status == FORBIDDEN
    assert scene.is_intact()


def test_outputs_of_another_request_cannot_be_renamed_away(scene: Scene) -> None:
    target = scene.client.url(SITE, f"{scene.ana.merged}/stolen.root")
    status = scene.attempt("MOVE", f"{scene.ben.merged}/a.root", Destination=target, Overwrite="T")

    assert status == FORBIDDEN
    assert scene.is_intact()


def test_outputs_of_another_request_cannot_be_copied_by_the_storage(scene: Scene) -> None:
    answer = scene.client.ask(
        "COPY",
        SITE,
        f"{scene.ana.merged}/stolen.root",
        token=scene.token,
        Source=scene.client.url(SITE, f"{scene.ben.merged}/a.root"),
        Credential="none",
        TransferHeaderAuthorization=f"Bearer {scene.token}",
    )

    assert "success" not in answer.text
    stolen = scene.client.site(SITE).path(f"{scene.ana.merged}/stolen.root")
    assert not stolen.exists() or stolen.read_bytes() != CONTENT


@pytest.mark.parametrize("step", ["..", "%2e%2e", "%2E%2E", "..%2f..", "./.."])
def test_a_path_that_climbs_out_of_the_own_directory_leads_nowhere(scene: Scene, step: str) -> None:
    climbs = "/".join([step] * scene.ana.unmerged.count("/"))
    lfn = f"{scene.ana.unmerged}/{climbs}{scene.ben.unmerged}"

    assert scene.raw("GET", f"{lfn}/a.root") >= 400
    assert scene.raw("PUT", f"{lfn}/evil.root", b"x") >= 400
    assert scene.raw("DELETE", f"{lfn}/a.root") >= 400
    assert scene.is_intact()


@pytest.mark.parametrize("method", ["PUT", "DELETE"])
def test_the_own_input_cannot_be_changed(scene: Scene, method: str) -> None:
    assert scene.attempt(method, scene.ana.input, body=b"x") == FORBIDDEN
    assert scene.client.site(SITE).path(scene.ana.input).read_bytes() == CONTENT


@pytest.mark.parametrize("place", ["/store", "/store/data", "/store/unmerged", "/store/user/ana"])
def test_nothing_can_be_written_outside_the_own_directories(scene: Scene, place: str) -> None:
    assert scene.attempt("PUT", f"{place}/evil{uuid4().hex}.root", body=b"x") == FORBIDDEN


@pytest.mark.parametrize("suffix", ["x", "-2", ".root"])
def test_a_directory_whose_name_begins_like_an_own_one_stays_closed(scene: Scene, suffix: str) -> None:
    for directory in (scene.ana.merged, scene.ana.unmerged):
        assert scene.attempt("PUT", f"{directory}{suffix}/evil.root", body=b"x") == FORBIDDEN


def test_the_unmerged_files_of_the_same_dataset_belong_to_their_workflow(scene: Scene) -> None:
    """A later version of a request writes to the same dataset, beside the files of the first."""
    sibling = f"{scene.ana.unmerged.rpartition('/')[0]}/{uuid4()}/a.root"

    assert scene.attempt("PUT", sibling, body=b"x") == FORBIDDEN


def test_a_token_ends(scene: Scene, settings: Any) -> None:
    settings.TOKEN_LIFETIME_SEC = 1
    lfn = f"{scene.ana.merged}/a.root"
    issuer = build_token_issuer()
    token = issuer.obtain(credentials.workflow_scopes(workflow=scene.ana.workflow)).value

    assert until(lambda: scene.client.status("GET", SITE, lfn, token=token) == FORBIDDEN, seconds=600)


def test_the_xroot_protocol_obeys_the_same_token(scene: Scene) -> None:
    given = {"X509_CERT_FILE": str(scene.client.grid.ca), "BEARER_TOKEN": scene.token}
    url = f"roots://localhost:{scene.client.site(SITE).port}"
    for words in (("rm", f"{scene.ben.merged}/a.root"), ("cat", f"{scene.ben.merged}/a.root")):
        done = subprocess.run(
            ["xrdfs", url, *words], env={**os.environ, **given}, capture_output=True, timeout=120, check=False
        )
        assert done.returncode != 0
        assert CONTENT not in done.stdout
    assert scene.is_intact()


# Each line of the output is an attempt and the status of the storage's answer.
ATTACK = """
import http.client, json, os, ssl
token = open(os.environ["BEARER_TOKEN_FILE"]).read().strip()
context = ssl.create_default_context(cafile=CA)
def ask(method, path, body=b"", **headers):
    connection = http.client.HTTPSConnection("localhost", PORT, timeout=60, context=context)
    given = {"Authorization": "Bearer " + token, **headers}
    connection.request(method, path, body=body or None, headers=given)
    return connection.getresponse().status
seen = {"tokens": sorted(os.listdir(os.environ["_CONDOR_CREDS"]))}
seen["own"] = ask("PUT", ANA + "/from-job.root", b"x")
for area in BEN:
    seen["read " + area] = ask("GET", area + "/a.root")
    seen["write " + area] = ask("PUT", area + "/a.root", b"x")
    seen["add " + area] = ask("PUT", area + "/evil.root", b"x")
    seen["delete " + area] = ask("DELETE", area + "/a.root")
    seen["list " + area] = ask("PROPFIND", area, Depth="1")
seen["outside"] = ask("PUT", "/store/evil.root", b"x")
with open(SEEN + ".tmp", "w") as out:
    json.dump(seen, out)
os.rename(SEEN + ".tmp", SEEN)
"""


def test_a_hostile_payload_gets_nowhere_with_the_token_of_its_job(
    scene: Scene, settings: Any, tmp_path: Path
) -> None:
    settings.SCHEDDS, settings.SUBMIT_ROOT = [], f"{settings.SUBMIT_ROOT}/test-{uuid4().hex}"
    seen = tmp_path / "seen"
    names = {
        "CA": str(scene.client.grid.ca),
        "PORT": scene.client.site(SITE).port,
        "ANA": "",
        "BEN": [scene.ben.merged, scene.ben.unmerged],
        "SEEN": str(seen),
    }
    workflow = make_workflow(
        input_dataset=None,
        total_events=10,
        splitting_algo="EventBased",
        splitting_params={"events_per_job": 10},
        memory_mb=256,
        output_datasets=scene.ana.workflow.output_datasets,
    )
    names["ANA"] = f"{scene.ana.unmerged.rpartition('/')[0]}/{workflow.pk}"
    program = "".join(f"{name} = {value!r}\n" for name, value in names.items()) + ATTACK
    workflow.payload_config = {"command": [sys.executable, "-S", "-c", program]}
    workflow.save()
    sites = SitePool(names=frozenset(pool_sites()), by_storage={})
    dag = production.plan_round(workflow=workflow, sites=sites, priority=1_000_000)
    try:
        production.ensure_submitted(dag=dag, priority=1_000_000)
        until(seen.exists, seconds=600, why=f"see the logs in {dag.submit_dir}/mg_000000")
    finally:
        schedd().remove_dag(dag.token, reason="the test is over", resumable=False)
        credentials.token_file(workflow).unlink(missing_ok=True)

    found = json.loads(seen.read_text())
    assert found.pop("own") == 201
    assert found.pop("tokens") == [credentials.token_file(workflow).name]
    assert set(found.values()) == {FORBIDDEN}, found
    assert scene.is_intact()
