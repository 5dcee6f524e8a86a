from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import requests

from lab.cms_world.rucio_rses import build_protocol, describe
from lab.cms_world.server import running_world
from lab.grid.description import Grid, GridSite

Ask = Callable[..., requests.Response]
RAW = "/SingleMuon/Run2024A-v1/RAW"
FILE = {
    "lfn": "/store/data/a.root",
    "size_bytes": 10,
    "events": 5,
    "adler32": "00000001",
    "lumis": {"1": [[1, 3]]},
}
DATASET = {
    "dataset": RAW,
    "blocks": [{"name": f"{RAW}#a", "rses": ["T2_CH_CERN", "T2_DE_DESY"], "files": [FILE]}],
}


def test_disk_storages_of_the_grids_sites_name_its_servers(tmp_path: Path) -> None:
    sites = {
        "T2_CH_CERN": GridSite(1094, tmp_path, "storage-T2_CH_CERN"),
        "T1_US_FNAL": GridSite(1095, tmp_path, "storage-T1_US_FNAL"),
    }
    grid = Grid(tmp_path / "ca.pem", "https://localhost:1", "wms2", tmp_path / "s", tmp_path / "k", sites)

    with running_world(tmp_path / "world", grid=grid) as world, world.store.transaction() as db:
        found = {
            rse: [(one["scheme"], one["hostname"], one["port"]) for one in describe(db, rse)["protocols"]]
            for rse in ("T2_CH_CERN", "T1_US_FNAL_Disk", "T1_US_FNAL_Tape", "T2_DE_DESY")
        }

    assert found == {
        "T2_CH_CERN": [("davs", "localhost", 1094), ("root", "localhost", 1094)],
        "T1_US_FNAL_Disk": [("davs", "localhost", 1095), ("root", "localhost", 1095)],
        "T1_US_FNAL_Tape": [],
        "T2_DE_DESY": [],
    }
    with running_world(tmp_path / "world") as world, world.store.transaction() as db:
        assert describe(db, "T2_CH_CERN")["protocols"] == [], "no grid any more"


def test_a_storage_has_the_protocols_that_were_set_for_it(ask: Ask, token: str) -> None:
    protocol = build_protocol("davs", "storage.example", 1094)
    pisa = {"name": "T2_IT_Pisa", "site": "T2_IT_Pisa", "protocols": [protocol]}
    ask("PUT", "/lab/rses", [pisa])

    answer = ask("GET", "/rucio/rses/T2_IT_Pisa", X_Rucio_Auth_Token=token)

    assert answer.json()["protocols"] == [protocol]
    assert ask("GET", "/rucio/rses/T2_CH_CERN", X_Rucio_Auth_Token=token).json()["protocols"] == []
    assert ask("GET", "/rucio/rses/T2_XX_None", X_Rucio_Auth_Token=token).status_code == 404


def test_dataset_appears_in_dbs_and_rucio(ask: Ask, token: str) -> None:
    assert ask("POST", "/lab/datasets", DATASET).status_code == 201

    state = ask("GET", "/lab/state").json()
    lumis = ask("GET", "/dbs/DBSReader/filelumis?logical_file_name=/store/data/a.root").json()
    replicas = ask(
        "POST",
        "/rucio/replicas/list",
        {"dids": [{"scope": "cms", "name": RAW}]},
        X_Rucio_Auth_Token=token,
    ).json()
    assert state["dbs"]["datasets"][RAW]["events"] == 5
    assert state["rucio"]["containers"] == {RAW: [f"{RAW}#a"]}
    assert [row["lumi_section_num"] for row in lumis] == [1, 2, 3]
    assert sorted(replicas["states"]) == ["T2_CH_CERN", "T2_DE_DESY"]


def test_adding_data_again_changes_nothing(ask: Ask) -> None:
    subscription = {"name": "mini", "pattern": "^/.*/MINIAOD$", "rse_expression": "T2_DE_DESY"}
    for _ in range(2):
        ask("POST", "/lab/datasets", DATASET)
        assert ask("POST", "/lab/subscriptions", subscription).status_code == 201

    assert ask("GET", "/lab/state").json()["dbs"]["datasets"][RAW]["files"] == 1


def test_file_may_be_elsewhere_than_its_block(ask: Ask, token: str) -> None:
    file = {**FILE, "rses": ["T2_US_Purdue"]}
    block = {"name": f"{RAW}#a", "rses": ["T2_CH_CERN"], "files": [file]}
    ask("POST", "/lab/datasets", {"dataset": RAW, "blocks": [block]})

    body = {"dids": [{"scope": "cms", "name": FILE["lfn"]}]}
    answer = ask("POST", "/rucio/replicas/list", body, X_Rucio_Auth_Token=token)

    assert list(answer.json()["states"]) == ["T2_US_Purdue"]


def test_new_storage_is_known_everywhere(ask: Ask, token: str) -> None:
    ask("PUT", "/lab/rses", [{"name": "T2_IT_Pisa", "site": "T2_IT_Pisa", "attributes": {"country": "IT"}}])

    sites = ask("GET", "/cric/api/cms/site/query/?json&preset=data-processing").json()["result"]
    rses = ask("GET", "/rucio/rses/?expression=country=IT", X_Rucio_Auth_Token=token)
    assert ["T2_IT_Pisa", "T2_IT_Pisa"] in sites
    assert rses.json() == {"rse": "T2_IT_Pisa"}


@pytest.mark.parametrize(("method", "path"), [("GET", "/lab/nothing"), ("DELETE", "/lab/state")])
def test_unknown_control_is_404(ask: Ask, method: str, path: str) -> None:
    assert ask(method, path).status_code == 404


def test_unknown_setting_is_refused(ask: Ask) -> None:
    assert ask("PUT", "/lab/settings", {"colour": 1}).status_code == 400


def test_reqmgr2_insists_on_json(ask: Ask) -> None:
    assert ask("GET", "/reqmgr2/data/request?name=x", Accept="*/*").status_code == 406


def test_rule_follows_data_that_arrives_later(ask: Ask, token: str) -> None:
    ask("POST", "/lab/datasets", DATASET)
    rule = {"dids": [{"scope": "cms", "name": RAW}], "copies": 1, "rse_expression": "T2_US_Purdue"}
    rule_id = ask("POST", "/rucio/rules/", rule, X_Rucio_Auth_Token=token).json()[0]
    ask("GET", f"/rucio/rules/{rule_id}", X_Rucio_Auth_Token=token)
    ask("PUT", "/lab/settings", {"rule_delay_sec": 3600})
    name = RAW.replace("/", "%2F")
    late = {"dids": [{"scope": "cms", "name": f"{RAW}#b"}]}
    files = {"dids": [{"scope": "cms", "name": "/store/data/b.root", "bytes": 1}], "rse": "T2_CH_CERN"}
    ask("POST", f"/rucio/dids/cms/{name}%23b", {"type": "DATASET"}, X_Rucio_Auth_Token=token)
    ask("POST", f"/rucio/dids/cms/{name}%23b/dids", files, X_Rucio_Auth_Token=token)
    ask("POST", f"/rucio/dids/cms/{name}/dids", late, X_Rucio_Auth_Token=token)

    rule = ask("GET", f"/rucio/rules/{rule_id}", X_Rucio_Auth_Token=token).json()

    assert (rule["state"], rule["locks_ok_cnt"], rule["locks_replicating_cnt"]) == ("REPLICATING", 1, 1)
