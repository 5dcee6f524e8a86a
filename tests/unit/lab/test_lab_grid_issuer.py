"""The token issuer: clients, scopes, and claims of tokens."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from datetime import UTC, datetime
from http import HTTPStatus
from pathlib import Path
from threading import Thread
from urllib.parse import urlencode

import jwt
import pytest
import requests

from lab.grid.certificates import Certificates, ensure_certificates
from lab.grid.issuer import Answer, Issuer, make_server
from lab.grid.tokens import ANY_AUDIENCE, MAX_LIFETIME_SEC, BadScope, Signer, parse_scopes

NOW = 1_700_000_000.0
SECRET = "s3cret"
SCOPE = "storage.read:/store storage.modify:/store/unmerged/wf-1"


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return ensure_certificates(tmp_path_factory.mktemp("certificates"), now=datetime.now(UTC))


@pytest.fixture
def issuer(certificates: Certificates) -> Issuer:
    signer = Signer.load(certificates.token_key)
    return Issuer(url="https://localhost:1", signer=signer, client_id="wms2", client_secret=SECRET)


def basic(client_id: str = "wms2", secret: str = SECRET) -> str:
    return "Basic " + base64.b64encode(f"{client_id}:{secret}".encode()).decode()


def ask(issuer: Issuer, *, authorization: str = basic(), **form: str) -> Answer:
    body = urlencode({"grant_type": "client_credentials", "scope": SCOPE, **form})
    return issuer.token(authorization=authorization, body=body, now=NOW)


def test_discovery_leads_to_the_keys_and_the_token_endpoint(issuer: Issuer) -> None:
    document = issuer.page("/.well-known/openid-configuration").document

    assert document["issuer"] == issuer.url
    assert document["jwks_uri"] == f"{issuer.url}/jwks"
    assert document["token_endpoint"] == f"{issuer.url}/token"


def test_a_token_is_verified_with_the_published_key(issuer: Issuer) -> None:
    answer = ask(issuer, audience="https://localhost:2", expires_in="600")

    keys = jwt.PyJWKSet.from_dict(issuer.page("/jwks").document)
    token = answer.document["access_token"]
    key = keys[jwt.get_unverified_header(token)["kid"]]
    claims = jwt.decode(
        token, key, algorithms=["ES256"], audience="https://localhost:2", options={"verify_exp": False}
    )
    assert claims["iss"] == issuer.url
    assert claims["sub"] == "wms2"
    assert claims["scope"] == SCOPE
    assert claims["wlcg.ver"] == "1.0"
    assert claims["exp"] == NOW + 600
    assert claims["nbf"] <= NOW
    assert answer.document["expires_in"] == 600
    assert answer.document["token_type"] == "Bearer"
    assert answer.headers["Cache-Control"] == "no-store"


@pytest.mark.parametrize(
    ("audience", "expected"),
    [("", ANY_AUDIENCE), ("https://a", "https://a"), ("https://a https://b", ["https://a", "https://b"])],
)
def test_a_token_is_for_the_requested_audience(
    issuer: Issuer, audience: str, expected: str | list[str]
) -> None:
    token = ask(issuer, audience=audience).document["access_token"]

    assert jwt.decode(token, options={"verify_signature": False})["aud"] == expected


def test_no_two_tokens_are_the_same(issuer: Issuer) -> None:
    tokens = {ask(issuer).document["access_token"] for _ in range(3)}

    assert len(tokens) == 3


@pytest.mark.parametrize(
    "authorization",
    [
        "",
        "Basic",
        "Basic !",
        basic(secret="wrong"),
        basic(client_id="eve"),
        basic().replace("Basic", "Bearer"),
    ],
)
def test_only_the_client_gets_tokens(issuer: Issuer, authorization: str) -> None:
    answer = ask(issuer, authorization=authorization)

    assert answer.status == HTTPStatus.UNAUTHORIZED
    assert answer.document["error"] == "invalid_client"
    assert "WWW-Authenticate" in answer.headers
    assert SECRET not in repr(issuer)


@pytest.mark.parametrize(
    ("form", "error"),
    [
        ({"grant_type": "password"}, "unsupported_grant_type"),
        ({"scope": ""}, "invalid_scope"),
        ({"scope": "storage.read:/"}, "invalid_scope"),
        ({"expires_in": "0"}, "invalid_request"),
        ({"expires_in": "-5"}, "invalid_request"),
        ({"expires_in": "soon"}, "invalid_request"),
        ({"expires_in": str(MAX_LIFETIME_SEC + 1)}, "invalid_request"),
    ],
)
def test_errors_are_refused_by_name(issuer: Issuer, form: dict[str, str], error: str) -> None:
    answer = ask(issuer, **form)

    assert answer.status == HTTPStatus.BAD_REQUEST
    assert answer.document["error"] == error
    assert answer.document["error_description"]


@pytest.mark.parametrize(
    "scope",
    [
        "storage.read:/store",
        "storage.create:/store/unmerged/wf_1-v1/a.b",
        "storage.modify:/store/unmerged/",
        "storage.stage:/store/data",
        "openid profile",
        "rucio",
    ],
)
def test_scopes_that_are_given(scope: str) -> None:
    assert parse_scopes(scope) == tuple(scope.split())


@pytest.mark.parametrize(
    "scope",
    [
        "",
        "storage.read",
        "storage.read:/",
        "storage.read:/etc",
        "storage.read:/storeroom",
        "storage.read:/store/../etc",
        "storage.read:/store//x",
        "storage.delete:/store",
        "storage.read:/store storage.modify:/",
        'a"b',
        "-x",
    ],
)
def test_scopes_that_are_not_given(scope: str) -> None:
    with pytest.raises(BadScope, match="scope"):
        parse_scopes(scope)


@pytest.fixture
def served(issuer: Issuer, certificates: Certificates) -> Iterator[str]:
    server = make_server(issuer, port=0, certificates=certificates)
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"https://localhost:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def test_it_serves_https_on_loopback(served: str, certificates: Certificates) -> None:
    with requests.Session() as session:
        session.trust_env = False
        session.verify = str(certificates.ca)
        form = {"grant_type": "client_credentials", "scope": SCOPE}

        token = session.post(f"{served}/token", data=form, auth=("wms2", SECRET), timeout=10)
        unknown = session.get(f"{served}/nothing", timeout=10)
        large = session.post(f"{served}/token", data="x" * 100_000, timeout=10)

    assert token.status_code == 200
    assert token.json()["scope"] == SCOPE
    assert (unknown.status_code, large.status_code) == (404, 400)


def test_the_public_key_does_not_hold_the_private_one(issuer: Issuer) -> None:
    assert set(issuer.signer.public_key) == {"crv", "kty", "x", "y", "kid", "alg", "use"}
    assert json.dumps(issuer.page("/jwks").document)
    assert "d" not in issuer.signer.public_key


def test_a_new_key_has_a_new_id(tmp_path: Path, issuer: Issuer) -> None:
    other = Signer.load(ensure_certificates(tmp_path, now=datetime.now(UTC)).token_key)

    assert other.public_key["kid"] != issuer.signer.public_key["kid"]
