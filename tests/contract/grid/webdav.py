"""The requests that clients of a storage make, each with its own token."""

from __future__ import annotations

import time
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import requests

from lab.grid.description import Grid, GridSite
from lab.grid.tokens import Signer, build_claims

TIMEOUT_SEC = 60.0
ALL = ("storage.read:/store", "storage.modify:/store")


def checksum(content: bytes) -> str:
    return f"{zlib.adler32(content):08x}"


@dataclass(frozen=True)
class Client:
    """A client of the storages of a grid."""

    grid: Grid

    def token(
        self,
        *scopes: str,
        audience: Sequence[str] = (),
        lifetime_sec: int = 600,
        issuer: str = "",
        key: Path | None = None,
    ) -> str:
        """Make a token without the issuer, also one that it would not grant."""
        claims = build_claims(
            issuer=issuer or self.grid.issuer,
            subject="tests",
            scopes=scopes or ALL,
            audience=audience,
            lifetime_sec=lifetime_sec,
            now=time.time(),
        )
        return Signer.load(key or self.grid.token_key).sign(claims)

    def url(self, site: str, lfn: str) -> str:
        return f"https://localhost:{self.grid.sites[site].port}{lfn}"

    def site(self, name: str) -> GridSite:
        return self.grid.sites[name]

    def ask(
        self,
        method: str,
        site: str,
        lfn: str,
        *,
        token: str | None = None,
        body: bytes = b"",
        timeout_sec: float = TIMEOUT_SEC,
        **headers: str,
    ) -> requests.Response:
        """Send one request; by default with a token for everything, with an empty one without any."""
        bearer = self.token() if token is None else token
        given = {name.replace("_", "-"): value for name, value in headers.items()}
        if bearer:
            given["Authorization"] = f"Bearer {bearer}"
        with requests.Session() as session:
            session.trust_env = False
            return session.request(
                method,
                self.url(site, lfn),
                data=body,
                headers=given,
                verify=str(self.grid.ca),
                timeout=timeout_sec,
                allow_redirects=False,
            )

    def status(self, method: str, site: str, lfn: str, *, token: str | None = None, body: bytes = b"") -> int:
        return self.ask(method, site, lfn, token=token, body=body).status_code

    def adler32(self, site: str, lfn: str) -> str:
        """Return the checksum that the server computed."""
        digest = self.ask("HEAD", site, lfn, Want_Digest="adler32").headers.get("Digest", "")
        return digest.removeprefix("adler32=").rjust(8, "0")

    def copy(self, source: str, destination: str, lfn: str, *, source_token: str) -> str:
        """Let the destination fetch the file from the source. Return the last line of its report."""
        answer = self.ask(
            "COPY",
            destination,
            lfn,
            Source=self.url(source, lfn),
            Overwrite="T",
            Credential="none",
            TransferHeaderAuthorization=f"Bearer {source_token}",
        )
        return answer.text.strip().splitlines()[-1]
