"""Description of the running grid in the file WMS2_LAB_GRID, for the CMS services, faults and tests."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from lab.files import write_atomically

VARIABLE = "WMS2_LAB_GRID"
DIRECTORY = "grid"  # below the stack's data


@dataclass(frozen=True, slots=True)
class GridSite:
    """One site's storage as others reach it, its files on this machine, and the name of its service."""

    port: int
    data: Path
    service: str

    @property
    def davs(self) -> str:
        return f"davs://localhost:{self.port}"

    @property
    def root(self) -> str:
        return f"root://localhost:{self.port}"

    def path(self, lfn: str) -> Path:
        """Return the path of the file on this machine's disk."""
        return Path(f"{self.data}{lfn}")


@dataclass(frozen=True, slots=True)
class Grid:
    ca: Path
    issuer: str
    client_id: str
    client_secret_file: Path
    token_key: Path
    sites: dict[str, GridSite]

    @classmethod
    def load(cls, path: Path) -> Self:
        document = json.loads(path.read_text(encoding="utf-8"))
        sites = {
            name: GridSite(port=site["port"], data=Path(site["data"]), service=site["pid-service"])
            for name, site in document["sites"].items()
        }
        return cls(
            ca=Path(document["ca"]),
            issuer=document["issuer"],
            client_id=document["client_id"],
            client_secret_file=Path(document["client_secret_file"]),
            token_key=Path(document["token_key"]),
            sites=sites,
        )

    def save(self, path: Path) -> None:
        write_atomically(path, json.dumps(self.document(), indent=1))

    def document(self) -> dict[str, Any]:
        sites = {
            name: {
                "davs": site.davs,
                "root": site.root,
                "port": site.port,
                "data": str(site.data),
                "pid-service": site.service,
            }
            for name, site in self.sites.items()
        }
        return {
            "ca": str(self.ca),
            "issuer": self.issuer,
            "client_id": self.client_id,
            "client_secret_file": str(self.client_secret_file),
            "token_key": str(self.token_key),
            "sites": sites,
        }


def grid_file(data: Path) -> Path:
    """Return the path of the description of a stack's grid, below the stack's data."""
    return data / DIRECTORY / "grid.json"
