"""Client of the REST API for the demonstration."""

from __future__ import annotations

from typing import Any

import requests

from lab.errors import LabError

TIMEOUT_SEC = 10.0
CONFLICT = 409


class ApiUnreachable(Exception):
    """No response, or a server error: retry."""


class Api:
    def __init__(self, url: str, token: str) -> None:
        self.url = url
        self._session = requests.Session()
        self._session.headers["Authorization"] = f"Bearer {token}"
        self._session.trust_env = False  # no proxy on loopback

    def submit(self, document: dict[str, Any]) -> str:
        """Create the request, or adopt an existing one; return its name."""
        name = str(document.get("request_name") or document.get("RequestName"))
        response = self._call("POST", "/api/v1/requests", json=document)
        if response.status_code == CONFLICT:
            return name
        return str(self._body(response)["request_name"])

    def request(self, name: str) -> dict[str, Any]:
        return self._body(self._call("GET", f"/api/v1/requests/{name}"))

    def timeline(self, name: str) -> list[dict[str, Any]]:
        """Return every status change, oldest first."""
        body = self._body(self._call("GET", f"/api/v1/requests/{name}/timeline?page_size=500"))
        return list(body["results"])

    def _call(self, method: str, path: str, *, json: dict[str, Any] | None = None) -> requests.Response:
        try:
            response = self._session.request(method, self.url + path, json=json, timeout=TIMEOUT_SEC)
        except requests.RequestException as error:
            raise ApiUnreachable(f"{method} {path}: {error}") from error
        if response.status_code >= 500:
            raise ApiUnreachable(f"{method} {path}: {response.status_code} {response.text[:300]}")
        return response

    def _body(self, response: requests.Response) -> dict[str, Any]:
        if not response.ok:
            raise LabError(
                f"{response.request.method} {response.request.path_url} was refused with "
                f"{response.status_code} ({response.text[:300]}): the sample requests do not match the API"
            )
        return dict(response.json())
