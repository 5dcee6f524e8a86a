"""The client of token issuers: its requests, and the answers it accepts."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from cms.http import HttpOptions
from cms.token_issuer import TokenRefused, read_endpoint, read_token
from lab.grid.certificates import Certificates
from tests.issuing import SECRET, RunningIssuer, lab_issuer, make_certificates, scripted_issuer
from wms2_project.errors import ServiceUnavailable

READ, MODIFY = "storage.read:/store/data/A", "storage.modify:/store/unmerged/A/wf"
SCOPES = [READ, MODIFY]


def jwt_of(claims: Any) -> str:
    body = base64.urlsafe_b64encode(json.dumps(claims).encode()).rstrip(b"=").decode()
    return f"eyJhbGciOiJFUzI1NiJ9.{body}.c2lnbmF0dXJl"


def token_answer(**changes: Any) -> dict[str, Any]:
    token = jwt_of({"scope": " ".join(SCOPES)})
    return {"access_token": token, "token_type": "Bearer", "expires_in": 600} | changes


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return make_certificates(tmp_path_factory.mktemp("certificates"))


@pytest.fixture
def issuer(certificates: Certificates, tmp_path: Path) -> Iterator[RunningIssuer]:
    with lab_issuer(certificates, tmp_path) as running:
        yield running


def claims_of(token: str) -> dict[str, Any]:
    body = token.split(".")[1]
    claims: dict[str, Any] = json.loads(base64.urlsafe_b64decode(body + "=" * (-len(body) % 4)))
    return claims


def test_a_token_has_the_requested_scopes_audience_and_lifetime(issuer: RunningIssuer) -> None:
    token = issuer.client(audience="https://se.example.org", lifetime_sec=600).obtain(SCOPES)

    claims = claims_of(token.value)
    assert set(claims["scope"].split()) == set(SCOPES)
    assert claims["aud"] == "https://se.example.org"
    assert (token.lifetime_sec, claims["exp"] - claims["iat"]) == (600, 600)


def test_the_endpoint_may_be_configured_instead_of_discovered(issuer: RunningIssuer) -> None:
    client = issuer.client(url="https://localhost:1", token_url=f"{issuer.url}/token")

    assert client.obtain(SCOPES).lifetime_sec > 0


def test_a_secret_that_was_replaced_is_used_without_a_restart(issuer: RunningIssuer) -> None:
    client = issuer.client()
    issuer.secret_file.write_text("not yet the right one")
    with pytest.raises(TokenRefused, match="401: invalid_client"):
        client.obtain(SCOPES)
    issuer.secret_file.write_text(SECRET)

    assert client.obtain(SCOPES).value


@pytest.mark.parametrize("content", ["", None, b"\xff\xfe"])
def test_a_secret_that_cannot_be_read_is_refused_with_the_file(issuer: RunningIssuer, content: Any) -> None:
    issuer.secret_file.unlink()
    if content is not None:
        issuer.secret_file.write_bytes(content or b"")
    with pytest.raises(TokenRefused, match=str(issuer.secret_file)):
        issuer.client().obtain(SCOPES)


def test_an_issuer_that_unknown_serves_is_unavailable(issuer: RunningIssuer) -> None:
    with pytest.raises(ServiceUnavailable, match="got no answer"):
        issuer.client(url="https://localhost:1").obtain(SCOPES)


def test_an_issuer_of_an_unknown_ca_is_unavailable(issuer: RunningIssuer) -> None:
    with pytest.raises(ServiceUnavailable, match=r"(?i)certificate"):
        issuer.client(http=HttpOptions()).obtain(SCOPES)


def test_a_secret_is_never_sent_without_tls(issuer: RunningIssuer) -> None:
    with pytest.raises(TokenRefused, match="not https"):
        issuer.client(token_url=issuer.url.replace("https", "http") + "/token").obtain(SCOPES)


@pytest.mark.parametrize(
    ("status", "document", "error", "words"),
    [
        (500, "no", ServiceUnavailable, "answered 500"),
        (503, {"error": "later"}, ServiceUnavailable, "answered 503: later"),
        (429, {}, ServiceUnavailable, "answered 429"),
        (400, {"error": "invalid_scope", "error_description": "no"}, TokenRefused, "400: invalid_scope: no"),
        (403, "<html>", TokenRefused, "answered 403"),
        (302, "", TokenRefused, "answered 302"),
        (200, "not json", TokenRefused, "not a JSON object"),
        (200, ["a"], TokenRefused, "not a JSON object"),
    ],
)
def test_every_other_answer_is_one_of_our_errors(
    certificates: Certificates, tmp_path: Path, status: int, document: Any, error: type[Exception], words: str
) -> None:
    with (
        scripted_issuer(certificates, tmp_path, answer=lambda _path, _form: (status, document)) as issuer,
        pytest.raises(error, match=words) as raised,
    ):
        issuer.client(token_url=f"{issuer.url}/token").obtain(SCOPES)

    assert SECRET not in str(raised.value)


def test_a_silent_issuer_is_unavailable_after_the_timeout(certificates: Certificates, tmp_path: Path) -> None:
    wait = Event()

    def answer(_path: str, _form: dict[str, str]) -> tuple[int, Any]:
        wait.wait(60)
        return 200, {}

    with scripted_issuer(certificates, tmp_path, answer=answer) as issuer:
        options = HttpOptions(read_timeout_sec=0.2, ca_path=str(issuer.ca))
        client = issuer.client(token_url=f"{issuer.url}/token", http=options)
        with pytest.raises(ServiceUnavailable, match="got no answer"):
            client.obtain(SCOPES)
        wait.set()


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"access_token": None}, "no access_token"),
        ({"access_token": "two words"}, "no access_token"),
        ({"access_token": "line\nbreak"}, "no access_token"),
        ({"access_token": "a" * 20_000}, "no access_token"),
        ({"token_type": "mac"}, "token_type"),
        ({"token_type": None}, "token_type"),
        ({"expires_in": None}, "expires_in"),
        ({"expires_in": 0}, "expires_in"),
        ({"expires_in": -5}, "expires_in"),
        ({"expires_in": True}, "expires_in"),
        ({"expires_in": "600"}, "expires_in"),
        ({"expires_in": 10**9}, "expires_in"),
        ({"access_token": jwt_of({"scope": READ})}, "did not grant storage.modify"),
        ({"access_token": jwt_of({})}, "did not grant"),
        (
            {"access_token": jwt_of({"scope": " ".join([*SCOPES, "storage.read:/"])})},
            "granted storage.read:/,",
        ),
        ({"access_token": "opaque", "scope": READ}, "did not grant storage.modify"),
        (
            {"access_token": "opaque", "scope": " ".join([*SCOPES, "storage.modify:/"])},
            "granted storage.modify:/",
        ),
        ({"access_token": "opaque", "scope": 5}, "did not grant"),
    ],
)
def test_an_answer_that_is_not_the_requested_token_is_refused(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(TokenRefused, match=words):
        read_token(token_answer(**changes), SCOPES)


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"token_type": "bearer"},
        {"access_token": "opaque"},  # without scope: as requested
        {"access_token": "opaque", "scope": " ".join(reversed(SCOPES))},
        {"access_token": "a.b.c"},  # looks like a JWT and is not
    ],
)
def test_a_token_with_exactly_the_scopes_is_taken(changes: dict[str, Any]) -> None:
    answer = token_answer(**changes)
    token = read_token(answer, SCOPES)

    assert (token.value, token.lifetime_sec) == (answer["access_token"], 600)
    assert token.value not in repr(token)


@pytest.mark.parametrize(
    ("document", "words"),
    [
        (
            {"issuer": "https://other", "token_endpoint": "https://a/token"},
            "names the issuer 'https://other'",
        ),
        ({"token_endpoint": "https://a/token"}, "names the issuer None"),
        ({"issuer": "https://a"}, "no https token_endpoint"),
        ({"issuer": "https://a", "token_endpoint": "http://a/token"}, "no https token_endpoint"),
    ],
)
def test_a_discovery_document_of_another_issuer_is_refused(document: dict[str, Any], words: str) -> None:
    with pytest.raises(TokenRefused, match=words):
        read_endpoint(document, issuer="https://a")


def test_a_slash_at_the_end_of_the_issuer_does_not_matter(issuer: RunningIssuer) -> None:
    client = issuer.client(url=f"{issuer.url}/")

    assert client.obtain(SCOPES).value


def test_the_client_sends_only_the_configured_parameters(certificates: Certificates, tmp_path: Path) -> None:
    with scripted_issuer(certificates, tmp_path, answer=lambda _path, _form: (200, token_answer())) as issuer:
        url = f"{issuer.url}/token"
        issuer.client(token_url=url).obtain([*SCOPES, READ])
        issuer.client(token_url=url, audience="x", lifetime_sec=5).obtain(SCOPES)

    asked = {"grant_type": "client_credentials", "scope": " ".join(sorted(SCOPES))}
    assert issuer.forms == [asked, asked | {"audience": "x", "expires_in": "5"}]
