"""Every way to log in works on a real Rucio server, and what is renewed is used without a restart."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from rucio_peers import RucioPeer

from cms.rucio import RucioClient
from cms.rucio_session import RucioAuth, RucioConfig, connect
from lab.grid.certificates import Certificates
from tests.contract.rucio_server.robot import DN, Robot, make_robot
from tests.contract.rucio_server.server import TOKEN_AUDIENCE, TOKEN_SCOPE, tls_front
from tests.issuing import CLIENT_ID, RunningIssuer, lab_issuer, make_certificates
from wms2_project.errors import ServiceRejected, ServiceUnavailable

pytestmark = pytest.mark.parametrize("peer", ["real"], indirect=True)
EMAIL = "robot@localhost"


@dataclass(frozen=True)
class Front:
    """The real server by https, with a registered robot and an accepted issuer."""

    config: RucioConfig
    certificates: Certificates
    issuer: RunningIssuer
    robot: Robot

    def token(self, *, lifetime_sec: int = 600, audience: str = TOKEN_AUDIENCE) -> str:
        client = self.issuer.client(audience=audience, lifetime_sec=lifetime_sec)
        return client.obtain(TOKEN_SCOPE.split()).value

    def logging_in(self, auth: RucioAuth, **changes: str) -> RucioClient:
        return RucioClient(replace(self.config, auth=auth, **changes))  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return make_certificates(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="module")
def issuer(certificates: Certificates, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningIssuer]:
    with lab_issuer(certificates, tmp_path_factory.mktemp("issuer")) as running:
        yield running


@pytest.fixture(scope="module")
def front(
    peer: RucioPeer,
    certificates: Certificates,
    issuer: RunningIssuer,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Front]:
    assert peer.server is not None
    directory = tmp_path_factory.mktemp("front")
    account, admin = peer.config.account, connect(peer.config)
    admin.add_identity(account, DN, "X509", EMAIL, default=True)
    admin.add_identity(account, f"SUB={CLIENT_ID}, ISS={issuer.url}", "OIDC", EMAIL, default=True)
    with tls_front(peer.server, directory, certificates=certificates, issuer=issuer) as url:
        config = replace(peer.config, url=url, auth_url=url, ca_path=str(certificates.ca))
        yield Front(config, certificates, issuer, make_robot(certificates, directory))


def works(client: RucioClient) -> bool:
    return "T2_CH_CERN" in client.rses("T2_CH_CERN")


def test_user_name_and_password(front: Front) -> None:
    assert works(front.logging_in(RucioAuth.USERPASS))


def test_a_certificate_with_its_key(front: Front) -> None:
    robot = front.robot
    client = front.logging_in(
        RucioAuth.X509,
        client_cert=str(robot.certificate),
        client_key=str(robot.key),
        username="",
        password="",
    )
    assert works(client)


def test_a_certificate_and_its_key_in_one_file(front: Front, tmp_path: Path) -> None:
    both = tmp_path / "both.pem"
    both.touch(mode=0o600)
    both.write_bytes(front.robot.certificate.read_bytes() + front.robot.key.read_bytes())

    assert works(front.logging_in(RucioAuth.X509, client_cert=str(both)))


def test_a_proxy(front: Front) -> None:
    assert works(front.logging_in(RucioAuth.X509_PROXY, client_cert=str(front.robot.proxy)))


def test_a_token(front: Front, tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_text(front.token())

    assert works(front.logging_in(RucioAuth.TOKEN, token_file=str(path)))


def test_a_renewed_token_is_read_when_the_old_one_is_refused(front: Front, tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_text(front.token())
    client = front.logging_in(RucioAuth.TOKEN, token_file=str(path))
    assert works(client)
    client._client.auth_token = "expired-meanwhile"  # what the server refuses from now on
    path.write_text(front.token())

    assert works(client)


def test_a_token_of_another_account_is_refused(front: Front, tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_text(front.token(audience="https://se.example.org"))

    with pytest.raises(ServiceRejected, match="denied permission"):
        works(front.logging_in(RucioAuth.TOKEN, token_file=str(path)))


def test_a_certificate_without_a_rucio_account_is_refused(front: Front) -> None:
    strange = front.certificates  # the host's own
    client = front.logging_in(RucioAuth.X509, client_cert=str(strange.host), client_key=str(strange.host_key))
    with pytest.raises(ServiceRejected, match="denied permission"):
        works(client)


def test_a_key_that_others_can_read_is_refused(front: Front, tmp_path: Path) -> None:
    key = tmp_path / "robot.key"
    key.write_bytes(front.robot.key.read_bytes())
    os.chmod(key, 0o644)
    client = front.logging_in(RucioAuth.X509, client_cert=str(front.robot.certificate), client_key=str(key))

    with pytest.raises(ServiceRejected, match="permissions are liberal"):
        works(client)


@pytest.mark.parametrize("auth", [RucioAuth.X509, RucioAuth.X509_PROXY, RucioAuth.TOKEN])
def test_a_file_that_is_not_there_is_named(front: Front, auth: RucioAuth) -> None:
    nowhere = "/nowhere/credential"
    client = front.logging_in(auth, client_cert=nowhere, client_key=nowhere, token_file=nowhere)

    with pytest.raises(ServiceRejected):
        works(client)


def test_a_server_of_an_unknown_ca_is_unavailable(front: Front, tmp_path: Path) -> None:
    other = make_certificates(tmp_path / "other")
    client = front.logging_in(RucioAuth.USERPASS, ca_path=str(other.ca))

    with pytest.raises(ServiceUnavailable):
        works(client)
