"""The grid: a token issuer and one XRootD server per site, and where the sites' storage is in this stack."""

from __future__ import annotations

import json
import os
import sys
from datetime import UTC, datetime
from http import HTTPStatus
from pathlib import Path

from lab.errors import LabError
from lab.files import keep_secret
from lab.grid.certificates import Certificates, ensure_certificates
from lab.grid.description import DIRECTORY, VARIABLE, Grid, GridSite, grid_file
from lab.grid.issuer import DISCOVERY
from lab.grid.probe import answers
from lab.grid.sites import Faults, Site, configure
from lab.paths import Layout
from lab.service import Service
from lab.services import Ground, Provided
from lab.services.condor import pool_sites

ISSUER = "token-issuer"
STORAGE_PREFIX = "storage-"  # and the site's name
CLIENT_ID = "wms2"
FILE, GRID = "file", "grid"
DEFAULT_STORAGE = GRID  # what jobs of ./wms2 up and demo use; WMS2_LAB_STORAGE overrides it


def build(ground: Ground) -> Provided:
    directory = ground.layout.data / DIRECTORY
    certificates = ensure_certificates(directory / "certificates", now=datetime.now(UTC))
    secret_file = directory / "client.secret"
    keep_secret(secret_file)
    issuer_port = ground.ports.pick(ISSUER)
    for name in pool_sites():  # jobs write to mounted storage only if its root is there
        (ground.layout.storage / name).mkdir(mode=0o700, parents=True, exist_ok=True)
    sites = [
        Site(
            name=name,
            port=ground.ports.pick(service_name(name)),
            home=directory / name,
            admin=ground.sockets / "xrd" / name,
        )
        for name in pool_sites()
    ]
    grid = Grid(
        ca=certificates.ca,
        issuer=f"https://localhost:{issuer_port}",
        client_id=CLIENT_ID,
        client_secret_file=secret_file,
        token_key=certificates.token_key,
        sites={
            site.name: GridSite(port=site.port, data=site.data, service=service_name(site.name))
            for site in sites
        },
    )
    description = grid_file(ground.layout.data)
    grid.save(description)
    issuer = _issuer(ground.layout, grid, certificates, port=issuer_port)
    storages = [_storage(ground.layout, site, certificates, issuer=grid.issuer) for site in sites]
    return Provided((issuer, *storages), _settings(grid, description))


def service_name(site: str) -> str:
    return f"{STORAGE_PREFIX}{site}"


def chosen_storage() -> str:
    """Return what the sites' storage is for jobs: plain directories (file) or the grid's servers (grid)."""
    chosen = os.environ.get("WMS2_LAB_STORAGE") or DEFAULT_STORAGE
    if chosen not in (FILE, GRID):
        raise LabError(f"WMS2_LAB_STORAGE={chosen!r} is unknown: set it to {FILE} or {GRID}, or unset it")
    return chosen


def _settings(grid: Grid, description: Path) -> dict[str, str]:
    settings = {VARIABLE: str(description), "WMS2_STORAGE_CA_FILE": str(grid.ca)}
    if not os.environ.get("CONDOR_CONFIG") or os.environ.get("WMS2_CREDENTIAL_DIR"):
        # otherwise the pool is external, and its token directory is not known
        settings |= {
            "WMS2_TOKEN_ISSUER": grid.issuer,
            "WMS2_TOKEN_CLIENT_ID": grid.client_id,
            "WMS2_TOKEN_CLIENT_SECRET_FILE": str(grid.client_secret_file),
            "WMS2_TOKEN_CA_FILE": str(grid.ca),
        }
    if chosen_storage() == GRID:
        settings |= {
            "WMS2_SITE_STORAGE": json.dumps({name: [site.davs] for name, site in grid.sites.items()}),
            "WMS2_STORAGE_PREFIX": "",
            "WMS2_LAB_STORAGE_PREFIX": f"{description.parent}/{{site}}/data",
        }
    return settings


def _issuer(layout: Layout, grid: Grid, certificates: Certificates, *, port: int) -> Service:
    options = {
        "--port": port,
        "--certificates": certificates.directory,
        "--client-id": grid.client_id,
        "--client-secret-file": grid.client_secret_file,
    }
    words = [str(word) for option in options.items() for word in option]
    return Service(
        name=ISSUER,
        argv=[sys.executable, "-m", "lab.grid.issuer", *words],
        ready=lambda _service: answers(port, DISCOVERY, ca=grid.ca) == HTTPStatus.OK,
        log=layout.log / f"{ISSUER}.log",
        cwd=layout.app,
    )


def _storage(layout: Layout, site: Site, certificates: Certificates, *, issuer: str) -> Service:
    name = service_name(site.name)
    site.home.mkdir(mode=0o700, parents=True, exist_ok=True)
    Faults().save(site.faults)  # a restart of the stack ends every fault
    return Service(
        name=name,
        argv=[str(_xrootd()), "-c", str(site.config), "-I", "v4"],
        ready=lambda _service: answers(site.port, "/store", ca=certificates.ca) != 0,
        log=layout.log / f"{name}.log",
        cwd=site.home,
        # third-party copies verify the other servers by this CA
        env={"XDG_CACHE_HOME": str(site.cache), "X509_CERT_FILE": str(certificates.ca)},
        before_spawn=lambda: configure(site, certificates=certificates, issuer=issuer),
    )


def _xrootd() -> Path:
    program = Path(os.environ.get("WMS2_XROOTD_HOME", "")) / "bin" / "xrootd"
    if not program.exists():
        raise LabError(
            f"there is no XRootD server at {program}: unset WMS2_XROOTD_HOME, so that ./wms2 installs one, "
            "or set it to a directory that holds bin/xrootd of version 5.8 or newer"
        )
    return program
