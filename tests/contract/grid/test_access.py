"""Real XRootD servers: who may read, write and copy what, by which token."""

from __future__ import annotations

import os
import socket
import ssl
import subprocess
from datetime import UTC, datetime
from pathlib import Path

import pytest
import requests

from cms.rucio import RucioClient
from cms.rucio_session import RucioConfig
from lab.cms_world.server import running_world
from lab.grid.certificates import ensure_certificates
from tests.contract.grid.conftest import HERE, THERE
from tests.contract.grid.webdav import Client, checksum

CONTENT = bytes(range(256)) * 400  # writing that is refused sends one byte: the server does not read it
FORBIDDEN = 403


@pytest.fixture
def stored(client: Client, lfn: str) -> str:
    """Return a file of the site, written as seeding does it."""
    path = client.site(HERE).path(lfn)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(CONTENT)
    return lfn


def test_a_file_is_written_read_checked_and_deleted(client: Client, lfn: str) -> None:
    assert client.status("PUT", HERE, lfn, body=CONTENT) == 201

    answer = client.ask("GET", HERE, lfn)
    assert (answer.status_code, answer.content) == (200, CONTENT)
    assert client.adler32(HERE, lfn) == checksum(CONTENT)
    assert client.site(HERE).path(lfn).read_bytes() == CONTENT
    assert client.status("DELETE", HERE, lfn) == 200
    assert client.status("GET", HERE, lfn) == 404
    assert not client.site(HERE).path(lfn).exists()


def test_a_seeded_file_has_its_checksum_and_is_read_in_parts(client: Client, stored: str) -> None:
    part = client.ask("GET", HERE, stored, Range="bytes=256-511")

    assert (part.status_code, part.content) == (206, bytes(range(256)))
    assert client.ask("HEAD", HERE, stored).headers["Content-Length"] == str(len(CONTENT))
    assert client.adler32(HERE, stored) == checksum(CONTENT)


def test_a_file_under_a_temporary_name_is_renamed(client: Client, lfn: str) -> None:
    temporary = f"{lfn}.part-1"
    client.ask("PUT", HERE, temporary, body=CONTENT)

    moved = client.ask("MOVE", HERE, temporary, Destination=client.url(HERE, lfn), Overwrite="T")

    assert moved.status_code == 201
    assert client.status("GET", HERE, temporary) == 404
    assert client.ask("GET", HERE, lfn).content == CONTENT


def test_a_directory_is_listed(client: Client, stored: str) -> None:
    directory, _, name = stored.rpartition("/")

    answer = client.ask("PROPFIND", HERE, directory, Depth="1")

    assert answer.status_code == 207
    assert name in answer.text


def test_a_site_does_not_see_the_files_of_another(client: Client, stored: str) -> None:
    assert client.status("GET", THERE, stored) == 404


@pytest.mark.parametrize("method", ["GET", "HEAD", "PUT", "DELETE", "PROPFIND"])
def test_without_a_token_nothing_is_allowed(client: Client, stored: str, method: str) -> None:
    assert client.status(method, HERE, stored, token="", body=b"x" if method == "PUT" else b"") == FORBIDDEN
    assert client.site(HERE).path(stored).read_bytes() == CONTENT


@pytest.mark.parametrize(
    ("scope", "method"),
    [
        ("storage.read:/store", "PUT"),
        ("storage.read:/store", "DELETE"),
        ("storage.read:/store/data", "GET"),
        ("storage.read:/store/unmerged/cont", "GET"),  # a prefix of the name, not a directory above it
        ("storage.modify:/store/unmerged/other", "PUT"),
        ("storage.modify:/store", "GET"),
        ("storage.create:/store", "DELETE"),
        ("openid", "GET"),
    ],
)
def test_a_wrong_scope_is_denied(client: Client, stored: str, scope: str, method: str) -> None:
    token = client.token(scope)

    assert client.status(method, HERE, stored, token=token, body=b"x") == FORBIDDEN
    assert client.site(HERE).path(stored).read_bytes() == CONTENT


def test_an_expired_token_is_denied(client: Client, stored: str) -> None:
    assert client.status("GET", HERE, stored, token=client.token(lifetime_sec=-60)) == FORBIDDEN


def test_a_token_is_good_for_its_audience_only(client: Client, stored: str) -> None:
    for_here = client.token(audience=[f"https://localhost:{client.site(HERE).port}"])

    assert client.status("GET", HERE, stored, token=for_here) == 200
    assert client.status("PUT", THERE, stored, token=for_here, body=b"x") == FORBIDDEN
    assert client.status("GET", HERE, stored, token=client.token(audience=["https://unknown"])) == FORBIDDEN


def test_a_token_of_another_issuer_is_denied(client: Client, stored: str, tmp_path: Path) -> None:
    foreign_key = ensure_certificates(tmp_path / "foreign", now=datetime.now(UTC)).token_key

    assert client.status("GET", HERE, stored, token=client.token(key=foreign_key)) == FORBIDDEN
    assert client.status("GET", HERE, stored, token=client.token(issuer="https://localhost:1")) == FORBIDDEN
    assert client.status("GET", HERE, stored, token="not.a.token") == FORBIDDEN


def test_tokens_of_the_issuer_open_the_paths_they_name(client: Client, lfn: str) -> None:
    grid = client.grid
    with requests.Session() as session:
        session.trust_env, session.verify = False, str(grid.ca)
        discovery = session.get(f"{grid.issuer}/.well-known/openid-configuration", timeout=10).json()
        form = {
            "grant_type": "client_credentials",
            "scope": "storage.read:/store storage.modify:/store/unmerged/contract",
            "audience": f"https://localhost:{client.site(HERE).port}",
            "expires_in": "120",
        }
        secret = grid.client_secret_file.read_text().strip()
        answer = session.post(
            discovery["token_endpoint"], data=form, auth=(grid.client_id, secret), timeout=10
        )
        refused = session.post(discovery["token_endpoint"], data=form, auth=("eve", secret), timeout=10)

    token = answer.json()["access_token"]
    assert client.status("PUT", HERE, lfn, token=token, body=CONTENT) == 201
    assert client.status("PUT", HERE, "/store/data/x.root", token=token, body=b"x") == FORBIDDEN
    assert refused.status_code == 401


def test_a_site_fetches_a_file_from_another(client: Client, stored: str) -> None:
    report = client.copy(HERE, THERE, stored, source_token=client.token("storage.read:/store"))

    assert report.startswith("success")
    assert client.site(THERE).path(stored).read_bytes() == CONTENT
    assert client.adler32(THERE, stored) == client.adler32(HERE, stored)


def test_a_copy_without_a_right_at_the_source_leaves_nothing(client: Client, stored: str) -> None:
    report = client.copy(HERE, THERE, stored, source_token=client.token("storage.read:/store/data"))

    assert report.startswith("failure")
    assert not client.site(THERE).path(stored).exists()


def xrdfs(client: Client, *arguments: str, token: str) -> subprocess.CompletedProcess[str]:
    url = f"roots://localhost:{client.site(HERE).port}"
    given = {"X509_CERT_FILE": str(client.grid.ca), "BEARER_TOKEN": token, "XRD_CONNECTIONRETRY": "1"}
    return subprocess.run(
        ["xrdfs", url, *arguments], env={**os.environ, **given}, capture_output=True, text=True, timeout=60
    )


def test_the_same_port_serves_the_xroot_protocol(client: Client, stored: str) -> None:
    found = xrdfs(client, "query", "checksum", stored, token=client.token("storage.read:/store"))
    denied = xrdfs(client, "query", "checksum", stored, token=client.token("storage.read:/store/data"))

    assert found.stdout.split() == ["adler32", checksum(CONTENT)], found.stderr
    assert denied.returncode != 0


def own_address() -> str:
    """Return an address of this machine that other machines could use, or an empty text."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))  # nothing is sent
            return str(probe.getsockname()[0])
        except OSError:
            return ""


def test_other_hosts_are_not_served(client: Client) -> None:
    address = own_address()
    if not address or address.startswith("127."):
        pytest.skip("this machine has no address besides loopback")
    context = ssl.create_default_context(cafile=str(client.grid.ca))

    with (
        pytest.raises(OSError),  # noqa: PT011 - refused, reset or closed
        socket.create_connection((address, client.site(HERE).port), timeout=10) as plain,
        context.wrap_socket(plain, server_hostname="localhost"),
    ):
        pass


def test_rucio_names_the_servers(client: Client, tmp_path: Path) -> None:
    """This is the state of a stack with WMS2_LAB_STORAGE=grid."""
    with running_world(tmp_path / "cms", grid=client.grid) as world:
        known, url = world.credentials, f"{world.url}/rucio"
        rucio = RucioClient(RucioConfig(url, url, known.account, known.username, known.password))
        prefixes = rucio.storage_prefixes("T1_US_FNAL_Disk")
        tape = rucio.storage_prefixes("T1_US_FNAL_Tape")

    site = client.site("T1_US_FNAL")
    assert (prefixes, tape) == ((site.davs, site.root), ())
