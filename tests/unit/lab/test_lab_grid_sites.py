"""Configuration of the grid's servers, and the settings of the stack for them."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from lab.errors import LabError
from lab.grid.certificates import Certificates
from lab.grid.description import Grid, grid_file
from lab.grid.sites import Faults, Site, configure, render_config, render_scitokens
from lab.grid.tokens import ANY_AUDIENCE
from lab.paths import Layout
from lab.ports import PortBook
from lab.service import Service
from lab.services import Ground, Provided, cms_world, condor, grid

SITE = Site(name="T2_CH_CERN", port=1094, home=Path("/g/T2_CH_CERN"), admin=Path("/s/T2_CH_CERN"))
CERTIFICATES = Certificates(Path("/g/certificates"))


def render(faults: Faults | None = None) -> str:
    return render_config(SITE, certificates=CERTIFICATES, faults=faults or Faults())


def directives(text: str) -> list[str]:
    return [line for line in text.splitlines() if line and not line.startswith("#")]


def test_the_configuration_has_no_hole_and_keeps_other_hosts_out() -> None:
    text = render()

    assert not re.search(r"@[A-Z_]+@", text)
    assert "xrd.allow host localhost" in directives(text)
    assert "oss.localroot /g/T2_CH_CERN/data" in directives(text)
    assert "xrd.port 1094" in directives(text)
    assert "xrd.tlsca certfile /g/certificates/ca.pem" in directives(text)


@pytest.mark.parametrize("trap", ["ofs.persist", "all.role", "sss", "ofs.tpc"])
def test_directives_that_harm_are_left_out(trap: str) -> None:
    assert not any(trap in line for line in directives(render()))


@pytest.mark.parametrize(
    ("faults", "line"),
    [
        (Faults(slow_bytes_per_sec=4096), "throttle.throttle data 4096"),
        (Faults(full=True), "oss.space public /g/T2_CH_CERN/space"),
    ],
)
def test_a_fault_is_in_the_configuration_while_it_lasts(faults: Faults, line: str) -> None:
    assert line in directives(render(faults))
    assert line not in directives(render())


def test_tokens_must_be_of_the_issuer_and_for_this_server_or_for_any() -> None:
    text = render_scitokens(SITE, issuer="https://localhost:7")

    assert "issuer = https://localhost:7\n" in text
    assert f"audience = {ANY_AUDIENCE}, https://localhost:1094\n" in text


def test_a_denying_server_accepts_another_issuer(tmp_path: Path) -> None:
    site = Site(name="T2", port=1, home=tmp_path / "T2", admin=tmp_path / "admin")
    site.home.mkdir()
    Faults(deny=True).save(site.faults)

    configure(site, certificates=CERTIFICATES, issuer="https://localhost:7")

    assert "https://localhost:7\n" not in site.scitokens.read_text()


@pytest.mark.parametrize("content", ["", "{", '{"full": true, "unknown": 1}'])
def test_faults_survive_a_torn_or_newer_file(tmp_path: Path, content: str) -> None:
    path = tmp_path / "faults.json"
    path.write_text(content)

    assert Faults.load(path).full is ("full" in content)


@pytest.fixture
def provided(layout: Layout, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Provided:
    program = tmp_path / "xrootd" / "bin" / "xrootd"
    program.parent.mkdir(parents=True)
    program.touch()
    monkeypatch.setenv("WMS2_XROOTD_HOME", str(program.parent.parent))
    monkeypatch.delenv("CONDOR_CONFIG", raising=False)
    return grid.build(Ground(layout, PortBook(layout.data / "ports.json"), layout.run))


def test_there_is_an_issuer_and_a_server_for_each_site_of_the_pool(provided: Provided) -> None:
    names = [service.name for service in provided.services]

    assert names == [grid.ISSUER, *(f"storage-{site}" for site in condor.pool_sites())]


def test_the_description_has_the_address_of_every_server(provided: Provided, layout: Layout) -> None:
    path = Path(provided.settings["WMS2_LAB_GRID"])
    document = json.loads(path.read_text())
    site = document["sites"]["T2_CH_CERN"]

    assert path == grid_file(layout.data)
    assert site["data"] == f"{layout.data}/grid/T2_CH_CERN/data"
    assert site["pid-service"] == "storage-T2_CH_CERN"
    assert site["davs"] == f"davs://localhost:{site['port']}"
    assert site["root"] == f"root://localhost:{site['port']}"
    assert len({site["port"] for site in document["sites"].values()}) == len(condor.pool_sites())
    assert Grid.load(path).document() == document


def test_the_client_secret_is_on_no_command_line(provided: Provided) -> None:
    secret = Path(provided.settings["WMS2_TOKEN_CLIENT_SECRET_FILE"]).read_text()

    for service in provided.services:
        assert secret not in " ".join(service.argv), service.name
    assert secret not in json.dumps(provided.settings)


def test_the_storage_of_jobs_is_plain_directories_by_default(
    provided: Provided, layout: Layout, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WMS2_LAB_STORAGE", "file")
    ground = Ground(layout, PortBook(layout.data / "ports.json"), layout.run)

    assert "WMS2_SITE_STORAGE" not in grid.build(ground).settings
    assert "--grid" not in cms_world.build(ground).services[0].argv
    monkeypatch.setenv("WMS2_LAB_STORAGE", "grid")
    settings = grid.build(ground).settings
    assert "--grid" in cms_world.build(ground).services[0].argv

    sites = Grid.load(grid_file(layout.data)).sites
    assert json.loads(settings["WMS2_SITE_STORAGE"]) == {name: [site.davs] for name, site in sites.items()}
    prefix = settings["WMS2_LAB_STORAGE_PREFIX"]
    assert {prefix.replace("{site}", name) for name in sites} == {str(site.data) for site in sites.values()}


@pytest.mark.parametrize(("credentials", "given"), [("", False), ("/oauth/wms2", True)])
def test_jobs_of_an_external_pool_get_tokens_if_its_token_directory_is_configured(
    provided: Provided, layout: Layout, monkeypatch: pytest.MonkeyPatch, credentials: str, given: bool
) -> None:
    monkeypatch.setenv("CONDOR_CONFIG", "/etc/condor/condor_config")
    monkeypatch.setenv("WMS2_CREDENTIAL_DIR", credentials)

    settings = grid.build(Ground(layout, PortBook(layout.data / "ports.json"), layout.run)).settings

    assert ("WMS2_TOKEN_ISSUER" in settings) is given


def test_an_unknown_storage_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WMS2_LAB_STORAGE", "tape")

    with pytest.raises(LabError, match="WMS2_LAB_STORAGE='tape'"):
        grid.chosen_storage()


def test_a_missing_server_is_refused_with_the_cure(layout: Layout, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WMS2_XROOTD_HOME", "/nowhere")

    with pytest.raises(LabError, match="unset WMS2_XROOTD_HOME"):
        grid.build(Ground(layout, PortBook(layout.data / "ports.json"), layout.run))


def test_a_restart_of_the_stack_ends_the_faults(provided: Provided, layout: Layout) -> None:
    service: Service = provided.services[1]
    faults_file = layout.data / "grid" / service.name.removeprefix("storage-") / "faults.json"
    Faults(full=True).save(faults_file)

    grid.build(Ground(layout, PortBook(layout.data / "ports.json"), layout.run))

    assert Faults.load(faults_file) == Faults()
