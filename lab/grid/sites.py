"""One site's storage: its directories, and the configuration its XRootD server is started with."""

from __future__ import annotations

import json
import re
from dataclasses import asdict, dataclass
from pathlib import Path

from lab.files import read_json, write_atomically
from lab.grid.certificates import Certificates
from lab.grid.tokens import ANY_AUDIENCE

TEMPLATE = Path(__file__).parent / "xrootd.cfg.template"
UNKNOWN_ISSUER = "https://localhost:1/unknown"  # an issuer that signs no token
NO_ROOM_GB = 1_000_000_000  # free space that no disk has


@dataclass(frozen=True, slots=True)
class Faults:
    """Injected faults of a server. They take effect at its next start."""

    slow_bytes_per_sec: int = 0
    full: bool = False
    deny: bool = False

    @classmethod
    def load(cls, path: Path) -> Faults:
        known = read_json(path)
        return cls(**{name: known[name] for name in cls.__slots__ if name in known})

    def save(self, path: Path) -> None:
        write_atomically(path, json.dumps(asdict(self)))


@dataclass(frozen=True, slots=True)
class Site:
    """A site's server. `home` holds its files and configuration, `admin` its sockets."""

    name: str
    port: int
    home: Path
    admin: Path

    @property
    def data(self) -> Path:
        return self.home / "data"

    @property
    def config(self) -> Path:
        return self.home / "xrootd.cfg"

    @property
    def scitokens(self) -> Path:
        return self.home / "scitokens.cfg"

    @property
    def authdb(self) -> Path:
        return self.home / "authdb"

    @property
    def cache(self) -> Path:
        """Directory in which the SciTokens library caches the issuer's keys."""
        return self.home / "cache"

    @property
    def space(self) -> Path:
        """A partition for new files that is always full."""
        return self.home / "space"

    @property
    def faults(self) -> Path:
        return self.home / "faults.json"


def configure(site: Site, *, certificates: Certificates, issuer: str) -> None:
    """Write the server's configuration, with the current faults."""
    for directory in (site.data / "store", site.cache, site.admin, site.space):
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    faults = Faults.load(site.faults)
    write_atomically(site.authdb, "")
    write_atomically(site.scitokens, render_scitokens(site, issuer=UNKNOWN_ISSUER if faults.deny else issuer))
    write_atomically(site.config, render_config(site, certificates=certificates, faults=faults))


def render_config(site: Site, *, certificates: Certificates, faults: Faults) -> str:
    values = {
        "SITE": site.name,
        "ADMIN": site.admin,
        "DATA": site.data,
        "PORT": site.port,
        "HOST": certificates.host,
        "HOST_KEY": certificates.host_key,
        "CA": certificates.ca,
        "SCITOKENS": site.scitokens,
        "AUTHDB": site.authdb,
        "FAULTS": render_faults(site, faults),
    }
    return re.sub(r"@([A-Z_]+)@", lambda found: str(values[found[1]]), TEMPLATE.read_text(encoding="utf-8"))


def render_faults(site: Site, faults: Faults) -> str:
    lines = []
    if faults.slow_bytes_per_sec:
        lines += ["xrootd.fslib throttle default", f"throttle.throttle data {faults.slow_bytes_per_sec}"]
    if faults.full:  # new files need a partition with more free space than there is
        lines += [f"oss.space public {site.space}", f"oss.alloc {NO_ROOM_GB}g"]
    return "\n".join(lines)


def render_scitokens(site: Site, *, issuer: str) -> str:
    """Return the SciTokens configuration: accepted issuer and audience."""
    return (
        f"[Global]\naudience = {ANY_AUDIENCE}, https://localhost:{site.port}\n\n"
        f"[Issuer lab]\nissuer = {issuer}\nbase_path = /\nauthorization_strategy = capability\n"
    )
