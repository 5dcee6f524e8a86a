"""No process starts with a secret that others can read, or with half of a token issuer."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.integration.admin.test_access import PRODUCTION, manage
from wms2_project import credential_checks as checks

KEY = "-----BEGIN PRIVATE KEY-----\nnone\n-----END PRIVATE KEY-----\n"
SETTINGS = {
    "WMS2_JOB_PROXY": "JOB_PROXY",
    "WMS2_SERVICE_TOKEN_FILE": "SERVICE_TOKEN_FILE",
    "WMS2_RUCIO_TOKEN_FILE": "RUCIO_TOKEN_FILE",
    "WMS2_TOKEN_CLIENT_SECRET_FILE": "TOKEN_CLIENT_SECRET_FILE",
}
ISSUER = {
    "TOKEN_ISSUER": "https://issuer.example.org",
    "TOKEN_URL": "",
    "TOKEN_CLIENT_ID": "wms2",
    "TOKEN_CLIENT_SECRET_FILE": "/etc/wms2/secret",
    "CREDENTIAL_DIR": "/var/lib/condor/oauth/wms2",
}


@pytest.fixture(autouse=True)
def _no_files(settings: Any) -> None:
    for name in SETTINGS.values():
        setattr(settings, name, "")
    settings.CMS_SERVICES = settings.CMS_SERVICES | {"client_cert": "", "client_key": ""}


def make_file(path: Path, mode: int, text: str = KEY) -> str:
    path.write_text(text)
    path.chmod(mode)
    return str(path)


@pytest.mark.parametrize(("mode", "refused"), [(0o400, 0), (0o600, 0), (0o640, 1), (0o604, 1), (0o620, 1)])
@pytest.mark.parametrize("variable", [*SETTINGS, "WMS2_CLIENT_KEY", "WMS2_CLIENT_CERT"])
def test_a_secret_that_others_can_open_is_refused(
    settings: Any, tmp_path: Path, variable: str, mode: int, refused: int
) -> None:
    path = make_file(tmp_path / "secret", mode)
    if variable in SETTINGS:
        setattr(settings, SETTINGS[variable], path)
    else:
        name = variable.removeprefix("WMS2_").lower()
        settings.CMS_SERVICES = settings.CMS_SERVICES | {name: path}

    found = checks.check_credential_files(None)
    assert [message.id for message in found] == ["wms2.E031"] * refused
    assert all(variable in message.msg and f"chmod 0600 {path}" in str(message.hint) for message in found)


def test_a_certificate_without_its_key_is_public(settings: Any, tmp_path: Path) -> None:
    certificate = make_file(tmp_path / "cert.pem", 0o644, "-----BEGIN CERTIFICATE-----\n")
    key = make_file(tmp_path / "key.pem", 0o600)
    settings.CMS_SERVICES = settings.CMS_SERVICES | {"client_cert": certificate, "client_key": key}

    assert checks.check_credential_files(None) == []


def test_a_file_that_this_process_does_not_have_is_not_judged(settings: Any, tmp_path: Path) -> None:
    settings.JOB_PROXY = str(tmp_path / "elsewhere")

    assert checks.check_credential_files(None) == []


@pytest.mark.parametrize(
    ("setting", "value", "variable"),
    [
        ("TOKEN_ISSUER", "http://issuer.example.org", "WMS2_TOKEN_ISSUER"),
        ("TOKEN_URL", "http://issuer.example.org/token", "WMS2_TOKEN_URL"),
        ("TOKEN_CLIENT_ID", "", "WMS2_TOKEN_CLIENT_ID"),
        ("TOKEN_CLIENT_SECRET_FILE", "", "WMS2_TOKEN_CLIENT_SECRET_FILE"),
        ("CREDENTIAL_DIR", "oauth", "WMS2_CREDENTIAL_DIR"),
    ],
)
def test_half_an_issuer_is_refused_with_the_variable_to_correct(
    settings: Any, setting: str, value: str, variable: str
) -> None:
    for name, whole in ISSUER.items():
        setattr(settings, name, whole)
    assert checks.check_token_issuer(None) == []
    setattr(settings, setting, value)

    (message,) = checks.check_token_issuer(None)
    assert (message.id, variable in str(message.hint)) == ("wms2.E032", True)


def test_a_process_refuses_to_start_with_a_secret_that_others_can_read(tmp_path: Path) -> None:
    path = make_file(tmp_path / "secret", 0o644, "secret")
    done = manage("check", **PRODUCTION, WMS2_SERVICE_TOKEN_FILE=path)

    assert done.returncode != 0
    assert "wms2.E031" in done.stdout + done.stderr


def test_an_unknown_way_to_log_in_to_rucio_is_refused() -> None:
    done = manage("check", **PRODUCTION, WMS2_RUCIO_AUTH="kerberos")

    assert done.returncode != 0
    assert "set it to userpass, x509, x509_proxy or token" in done.stdout + done.stderr
