"""Public keys of token issuers: found by discovery, fetched with a timeout, cached.

An unknown key id triggers a new fetch, at most twice a minute, so that tokens with invented ids cannot load
the issuer. While the issuer does not answer, its last keys stay valid for a day.
"""

from __future__ import annotations

import json
import logging
import threading
import time
from dataclasses import dataclass, field
from typing import Any

import jwt
import requests

from wms2_project.errors import ServiceUnavailable

FRESH_SEC = 900.0
ASK_AGAIN_SEC = 30.0
STALE_SEC = 86_400.0
_MAX_BYTES = 1_000_000
_CURE = "Try again in a minute"
logger = logging.getLogger(__name__)


@dataclass(slots=True)
class _Held:
    keys: dict[str, jwt.PyJWK] = field(default_factory=dict)
    fetched_at: float = float("-inf")
    asked_at: float = float("-inf")


class IssuerKeys:
    """Keys by issuer and key id, shared by the threads of one process."""

    def __init__(self, *, timeout_sec: float) -> None:
        self._timeout_sec = timeout_sec
        self._held: dict[str, _Held] = {}
        self._lock = threading.Lock()

    def find(self, issuer: str, key_id: str) -> jwt.PyJWK | None:
        """Return the issuer's key with this id; None if it has none. Raise ServiceUnavailable if unknown."""
        now = time.monotonic()
        with self._lock:  # released before the fetch: other threads use the cached keys meanwhile
            held = self._held.setdefault(issuer, _Held())
            known = key_id in held.keys and now - held.fetched_at < FRESH_SEC
            asks = not known and now - held.asked_at >= ASK_AGAIN_SEC
            held.asked_at = now if asks else held.asked_at
        if asks:
            self._refresh(issuer, held, now)
        if now - held.fetched_at > STALE_SEC:
            raise ServiceUnavailable(f"the token issuer {issuer} does not provide its keys", cure=_CURE)
        return held.keys.get(key_id)

    def _refresh(self, issuer: str, held: _Held, now: float) -> None:
        try:
            found = self._json(issuer.rstrip("/") + "/.well-known/openid-configuration")
            address = str(found["jwks_uri"])
            if found.get("issuer") != issuer or (issuer.startswith("https:") and address[:6] != "https:"):
                raise ValueError("the discovery document names another issuer, or keys without TLS")
            keys = jwt.PyJWKSet.from_dict(self._json(address)).keys
        except (requests.RequestException, ValueError, KeyError, TypeError, jwt.PyJWTError) as error:
            logger.warning("no keys from %s: %s: %s", issuer, type(error).__name__, error)
            return  # keep the last keys
        held.keys = {str(key.key_id): key for key in keys if key.key_id}
        held.fetched_at = now

    def _json(self, url: str) -> dict[str, Any]:
        with requests.get(url, timeout=self._timeout_sec, allow_redirects=False, stream=True) as answer:
            answer.raise_for_status()
            body = json.loads(answer.raw.read(_MAX_BYTES, decode_content=True))
        if answer.status_code != 200 or not isinstance(body, dict):
            raise ValueError(f"{url} did not return a JSON object")
        return body
