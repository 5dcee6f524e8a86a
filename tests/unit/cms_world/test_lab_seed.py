"""The lab's input data: real files, registered in DBS and Rucio with their true properties, deterministic."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import requests

from cms.dbs import DbsClient, DbsConfig
from cms.reqmgr2 import ReqMgr2Client, ReqMgr2Config
from cms.rucio import RucioClient
from cms.rucio_session import RucioConfig
from cms.types import Destination
from lab.cms_world.known import SITE_OF_RSE
from lab.cms_world.server import World
from lab.seed.__main__ import seed
from lab.seed.formats import ROOT_DEMO
from lab.seed.storage import Storage
from lab.toy.eventfile import facts, read_events
from rootfiles.inspect import inspect
from sandbox.filefacts import checksum

ROOT = Path(__file__).parents[3]
Ask = Callable[..., requests.Response]


@pytest.fixture
def storage(tmp_path: Path) -> Storage:
    return Storage(f"{tmp_path}/storage/{{site}}")


@pytest.fixture
def documents(world: World, storage: Storage) -> list[dict[str, Any]]:
    return seed(world.url, storage, "T1")


@pytest.fixture
def dbs(world: World) -> DbsClient:
    return DbsClient(DbsConfig(f"{world.url}/dbs/DBSReader", f"{world.url}/dbs/DBSWriter"))


@pytest.fixture
def rucio(world: World) -> RucioClient:
    url, known = f"{world.url}/rucio", world.credentials
    return RucioClient(RucioConfig(url, url, known.account, known.username, known.password))


def inputs(documents: list[dict[str, Any]]) -> list[str]:
    return [document["InputDataset"] for document in documents if "InputDataset" in document]


def test_every_replica_is_a_file_with_the_registered_facts(
    documents: list[dict[str, Any]], storage: Storage, dbs: DbsClient, rucio: RucioClient
) -> None:
    for dataset in inputs(documents):
        files = list(dbs.files(dataset))
        places = rucio.replicas([file.lfn for file in files])
        for file in files:
            assert places[file.lfn]
            for rse in places[file.lfn]:
                found = facts(storage.path(file.lfn, rse))
                lumis = tuple((run, *pair) for run, pairs in found.lumis.items() for pair in pairs)
                assert (found.size_bytes, found.adler32, found.events, lumis) == (
                    file.size_bytes,
                    file.adler32,
                    file.events,
                    file.lumis,
                )


def test_root_files_are_registered_with_their_facts_and_stay(
    world: World, storage: Storage, dbs: DbsClient, rucio: RucioClient
) -> None:
    documents = seed(world.url, storage, "R1", ROOT_DEMO)
    registered = {file.lfn: file for dataset in inputs(documents) for file in dbs.files(dataset)}
    places = rucio.replicas(list(registered))
    assert len(registered) == 34
    for lfn, file in registered.items():
        for rse in places[lfn]:
            path = storage.path(lfn, rse)
            found = inspect(str(path))
            lumis = tuple(
                (int(run), *pair[:2]) for run, pairs in (found.lumi_events or {}).items() for pair in pairs
            )
            assert (*checksum(path), found.events) == (file.size_bytes, file.adler32, file.events)
            assert lumis == file.lumis

    assert {document["PayloadConfig"]["kind"] for document in documents} == {"root-demo"}
    assert seed(world.url, storage, "R1", ROOT_DEMO) == documents
    assert {file.lfn: file for dataset in inputs(documents) for file in dbs.files(dataset)} == registered


def test_rereco_input_is_spread_over_sites_and_runs(
    documents: list[dict[str, Any]], dbs: DbsClient, rucio: RucioClient
) -> None:
    files = list(dbs.files(documents[0]["InputDataset"]))

    places = Counter(rucio.replicas([file.lfn for file in files]).values())

    assert len(files) >= 24
    assert len({SITE_OF_RSE[rse] for rses in places for rse in rses}) >= 3
    assert any(len(rses) == 2 for rses in places)
    assert len({run for file in files for run, _, _ in file.lumis}) >= 3


def test_event_numbers_are_unique_within_a_run(
    documents: list[dict[str, Any]], storage: Storage, dbs: DbsClient, rucio: RucioClient
) -> None:
    for dataset in inputs(documents):
        files = list(dbs.files(dataset))
        places = rucio.replicas([file.lfn for file in files])
        events = [
            (event.run, event.event)
            for file in files
            for event in read_events(storage.path(file.lfn, places[file.lfn][0]))
        ]
        assert len(set(events)) == len(events) == sum(file.events for file in files)


def test_first_request_can_be_fetched_by_name(world: World, documents: list[dict[str, Any]]) -> None:
    client = ReqMgr2Client(ReqMgr2Config(f"{world.url}/reqmgr2"))

    assert client.request("lab_ReReco_SingleMuon_T1") == documents[0]


def test_seeding_again_changes_nothing(world: World, ask: Ask, storage: Storage) -> None:
    first = seed(world.url, storage)
    before = ask("GET", "/lab/state").json()

    assert seed(world.url, storage) == first
    assert ask("GET", "/lab/state").json() == before


def test_damaged_copy_is_repaired(
    world: World, storage: Storage, documents: list[dict[str, Any]], dbs: DbsClient, rucio: RucioClient
) -> None:
    file = next(dbs.files(documents[0]["InputDataset"]))
    path = storage.path(file.lfn, rucio.replicas([file.lfn])[file.lfn][0])
    path.write_bytes(b"rubbish")

    seed(world.url, storage, "T1")

    assert facts(path).adler32 == file.adler32


def test_suffixes_share_nothing(world: World, storage: Storage, documents: list[dict[str, Any]]) -> None:
    others = seed(world.url, storage, "T2")

    for ours, theirs in zip(documents, others, strict=True):
        assert ours["RequestName"] != theirs["RequestName"]
        assert not set(ours["OutputDatasets"]) & set(theirs["OutputDatasets"])
    assert not set(inputs(documents)) & set(inputs(others))


def test_miniaod_has_a_destination_and_aod_does_not(
    documents: list[dict[str, Any]], rucio: RucioClient
) -> None:
    aod, miniaod = documents[0]["OutputDatasets"]

    assert rucio.subscriptions_matching(miniaod) == [Destination("T2_DE_DESY")]
    assert rucio.subscriptions_matching(aod) == []


def run_module(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "lab.seed", *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


def test_command_prints_the_requests(world: World, storage: Storage) -> None:
    done = run_module("--url", world.url, "--storage-prefix", storage.prefix, "--suffix", "cli")

    assert done.returncode == 0, done.stderr
    names = [document["RequestName"] for document in json.loads(done.stdout)["requests"]]
    assert names == ["lab_ReReco_SingleMuon_cli", "lab_MonteCarlo_ZToMuMu_cli", "lab_Urgent_EGamma_cli"]


@pytest.mark.parametrize("wrong", [["--suffix", "a/b"], ["--storage-prefix", "/no/site"]])
def test_command_refuses_invalid_arguments(storage: Storage, wrong: list[str]) -> None:
    done = run_module("--url", "http://127.0.0.1:9", "--storage-prefix", storage.prefix, *wrong)

    assert done.returncode == 2
    assert "is not" in done.stderr
