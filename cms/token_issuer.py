"""Token issuer: bearer tokens for storage, by the client-credentials grant (RFC 6749, section 4.4).

No answer, 5xx and 429 become ServiceUnavailable, everything else that is not a usable token TokenRefused.
A token that grants more than was asked is refused too: it would give a job rights that it must not have.
Neither tokens nor the client's secret appear in errors.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
import threading
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import requests

from cms.http import MAX_MESSAGE, HttpOptions, build_session, describe
from wms2_project.errors import ServiceRejected, ServiceUnavailable
from wms2_project.observation.tracing import SpanKind, note, span

DISCOVERY = ".well-known/openid-configuration"
MAX_LIFETIME_SEC = 30 * 24 * 3600
MAX_TOKEN_LENGTH = 16_384
_TOKEN = re.compile(r"[A-Za-z0-9._~+/-]+=*", re.ASCII)  # RFC 6750: b64token


class TokenRefused(ServiceRejected):
    """The issuer refused the token, or its answer is not a token that may be used."""

    code = "token_refused"


@dataclass(frozen=True, slots=True)
class TokenIssuerConfig:
    """The issuer and our client there.

    `token_url` replaces discovery. `lifetime_sec` is sent as `expires_in`; issuers that do not know the
    parameter ignore it. 0 leaves the lifetime to the issuer.
    """

    url: str
    client_id: str
    client_secret_file: str
    audience: str = ""
    lifetime_sec: int = 0
    token_url: str = ""
    http: HttpOptions = field(default_factory=HttpOptions)


@dataclass(frozen=True, slots=True)
class IssuedToken:
    """A bearer token, and for how long it is valid from the moment it was issued."""

    value: str = field(repr=False)
    lifetime_sec: int


class TokenIssuer:
    """Obtains tokens. The secret is read at each call, so that it can be replaced while processes run."""

    def __init__(self, config: TokenIssuerConfig) -> None:
        self._config = config
        self._timeout = (config.http.connect_timeout_sec, config.http.read_timeout_sec)
        self._session = build_session(config.http)
        self._lock = threading.Lock()
        self._discovered = ""

    def obtain(self, scopes: Iterable[str]) -> IssuedToken:
        """Return a token with exactly these scopes.

        Raises ServiceUnavailable if the issuer does not answer, TokenRefused if it refuses or its answer
        cannot be used.
        """
        config, wanted = self._config, sorted(set(scopes))
        form = {"grant_type": "client_credentials", "scope": " ".join(wanted)}
        if config.audience:
            form["audience"] = config.audience
        if config.lifetime_sec:
            form["expires_in"] = str(config.lifetime_sec)
        answer = self._call("POST", self._token_url(), form)
        return read_token(answer, wanted)

    def _token_url(self) -> str:
        if self._config.token_url:
            return self._config.token_url
        with self._lock:
            if not self._discovered:
                url = self._config.url.rstrip("/")
                self._discovered = read_endpoint(self._call("GET", f"{url}/{DISCOVERY}"), issuer=url)
            return self._discovered

    @span("token issuer", kind=SpanKind.CLIENT)
    def _call(self, method: str, url: str, form: dict[str, str] | None = None) -> dict[str, Any]:
        where = f"token issuer: {method} {url}"
        note(where, service="token issuer")
        if urlsplit(url).scheme != "https":
            raise TokenRefused(
                f"{where}: the address is not https", cure="Set WMS2_TOKEN_ISSUER to https://…"
            )
        auth = (self._config.client_id, self._secret()) if form is not None else None
        with self._config.http.guard(f"{method} token"):
            try:
                response = self._session.request(
                    method,
                    url,
                    data=form,
                    auth=auth,
                    timeout=self._timeout,
                    allow_redirects=False,
                    verify=self._config.http.ca_path or None,
                )
            except OSError as error:  # requests' errors, and those of a CA file that cannot be loaded
                raise ServiceUnavailable(f"{where} got no answer: {describe(error)}") from error
            document = _document(response)
            _raise_for_status(where, response, document)
        if document is None:
            raise TokenRefused(f"{where} answered something that is not a JSON object", cure=_CHECK_ADDRESS)
        return document

    def _secret(self) -> str:
        path = self._config.client_secret_file
        try:
            secret = Path(path).read_text("utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            raise TokenRefused(
                f"the client secret in {path} cannot be read: {describe(error)}",
                cure="Write the issuer's client secret to WMS2_TOKEN_CLIENT_SECRET_FILE, mode 0400 or 0600",
            ) from error
        if not secret:
            raise TokenRefused(f"{path} is empty", cure="Write the issuer's client secret to it")
        return secret


_CHECK_ADDRESS = "Check WMS2_TOKEN_ISSUER and WMS2_TOKEN_URL"
_CHECK_CLIENT = "Check WMS2_TOKEN_CLIENT_ID, its secret, and the scopes that the issuer allows this client"


def read_endpoint(document: dict[str, Any], *, issuer: str) -> str:
    """Return the token endpoint of a discovery document, which must be this issuer's own (RFC 8414)."""
    named, endpoint = document.get("issuer"), document.get("token_endpoint")
    if not isinstance(named, str) or named.rstrip("/") != issuer:
        raise TokenRefused(
            f"the discovery document of {issuer} names the issuer {named!r:.200}",
            cure="Set WMS2_TOKEN_ISSUER to that address",
        )
    if not isinstance(endpoint, str) or urlsplit(endpoint).scheme != "https":
        raise TokenRefused(
            f"{issuer} names no https token_endpoint: {endpoint!r:.200}",
            cure="Set WMS2_TOKEN_URL to the endpoint",
        )
    return endpoint


def read_token(document: dict[str, Any], wanted: Iterable[str]) -> IssuedToken:
    """Return the token of a token response. Raises TokenRefused unless it has exactly the wanted scopes."""
    value, kind = document.get("access_token"), document.get("token_type")
    if not isinstance(value, str) or len(value) > MAX_TOKEN_LENGTH or not _TOKEN.fullmatch(value):
        raise TokenRefused(
            "the issuer's answer holds no access_token that is a bearer token", cure=_CHECK_ADDRESS
        )
    if not isinstance(kind, str) or kind.lower() != "bearer":
        raise TokenRefused(f"the issuer's token_type is {kind!r:.40}, expected Bearer", cure=_CHECK_ADDRESS)
    lifetime = document.get("expires_in")
    if isinstance(lifetime, bool) or not isinstance(lifetime, int) or not 0 < lifetime <= MAX_LIFETIME_SEC:
        raise TokenRefused(
            f"the issuer's expires_in is {lifetime!r:.40}, expected seconds from 1 to {MAX_LIFETIME_SEC}",
            cure="Ask the issuer's administrators for tokens that expire",
        )
    _check_scopes(_granted(value, document), set(wanted))
    return IssuedToken(value, lifetime)


def _check_scopes(granted: set[str] | None, wanted: set[str]) -> None:
    if granted is None or granted == wanted:
        return
    missing, more = sorted(wanted - granted), sorted(granted - wanted)
    if missing:
        raise TokenRefused(f"the issuer did not grant {missing[0]}", cure=_CHECK_CLIENT)
    raise TokenRefused(
        f"the issuer granted {more[0]:.200}, which was not asked for",
        cure="Let the issuer grant this client only the scopes that a call asks for",
    )


def _granted(value: str, document: dict[str, Any]) -> set[str] | None:
    """Return the token's scopes: its own claim if it is a JWT, else the response's. None: as asked."""
    claims = _claims(value)
    scope = document.get("scope") if claims is None else claims.get("scope")
    if claims is None and scope is None:
        return None
    return set(scope.split()) if isinstance(scope, str) else set()


def _claims(value: str) -> dict[str, Any] | None:
    """Return the claims of a JWT. The signature is not checked: the token came from the issuer, by TLS."""
    parts = value.split(".")
    if len(parts) != 3:
        return None
    try:
        claims = json.loads(base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4)))
    except (binascii.Error, ValueError, RecursionError):
        return None
    return claims if isinstance(claims, dict) else None


def _document(response: requests.Response) -> dict[str, Any] | None:
    try:
        document = response.json()
    except (ValueError, RecursionError):
        return None
    return document if isinstance(document, dict) else None


def _raise_for_status(where: str, response: requests.Response, document: dict[str, Any] | None) -> None:
    status = response.status_code
    if status < 300:
        return
    given = document or {}
    words = (given.get("error"), given.get("error_description"))
    message = ": ".join(str(word) for word in words if word) or response.reason or "no reason given"
    message = f"{where} answered {status}: {' '.join(message.split())[:MAX_MESSAGE]}"
    if status >= 500 or status == 429:
        raise ServiceUnavailable(message)
    raise TokenRefused(message, cure=_CHECK_ADDRESS if status < 400 or status == 404 else _CHECK_CLIENT)
