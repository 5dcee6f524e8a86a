"""URL prefixes of the sites' storage. The name of a file on storage is prefix + LFN.

`storage.json` in a DAG directory holds the prefixes for all jobs of the DAG. The first prefix of a site is
where its files are; the others take files while the first cannot be written to.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from sandbox import names
from sandbox.jsonfile import SCHEMA, Fields

STORAGE_FILE, CA_FILE = "storage.json", "ca.pem"
MAX_PREFIXES = 8  # of one site
MAX_SITES = 2000
SITE_MARK = "{site}"
REMOTE_SCHEMES = ("davs", "https", "root", "roots")
CURE = "Use an absolute path or a URL such as davs://se.example.org:2880/cms or root://se.example.org//cms"
_PATH = re.compile(r"/[^\x00-\x1f\x7f?#]*", re.ASCII)
_URL_PATH = r"(/[A-Za-z0-9_.=~+,{}/-]*)?"
_URL = re.compile(rf"(?:{'|'.join(REMOTE_SCHEMES)})://[A-Za-z0-9._-]+(:[0-9]{{1,5}})?{_URL_PATH}", re.ASCII)


@dataclass(frozen=True)
class Places:
    """`default` applies to sites that are not listed; '' = they have no storage.

    `merged_fallback`: merged files may be written to other prefixes than the first, because WMS2 moves them
    to the first one before it registers them. DAGs of earlier versions do not have it.
    """

    sites: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    default: str = ""
    merged_fallback: bool = False

    def prefixes(self, site: str) -> tuple[str, ...]:
        """Return the prefixes of a site, the primary first; none if its storage is unknown."""
        found = self.sites.get(site) or ((self.default,) if self.default else ())
        return tuple(one.replace(SITE_MARK, site).rstrip("/") for one in found)

    def as_json(self) -> bytes:
        """Return the content of `storage.json`."""
        sites = {site: list(prefixes) for site, prefixes in self.sites.items()}
        document = {
            "schema": SCHEMA,
            "sites": sites,
            "default": self.default,
            "merged_fallback": self.merged_fallback,
        }
        return json.dumps(document, sort_keys=True).encode()


def prefix_problem(prefix: object) -> str:
    """Return what is wrong with a prefix, '' if nothing is."""
    if not isinstance(prefix, str) or len(prefix) > names.MAX_LENGTH:
        return "it is not a short text"
    path = prefix[len("file://") :] if prefix.startswith("file://") else prefix
    if ".." in prefix.split("/"):
        return "it holds .."
    if path.startswith("/"):
        return "" if _PATH.fullmatch(path) else "the path holds a control character, ? or #"
    if not _URL.fullmatch(prefix):
        return f"it is neither an absolute path nor a URL of the schemes file, {', '.join(REMOTE_SCHEMES)}"
    return ""


def prefixes_problem(prefixes: object) -> str:
    """Return what is wrong with the list of prefixes of one site, '' if nothing is."""
    if not isinstance(prefixes, (list, tuple)) or not 1 <= len(prefixes) <= MAX_PREFIXES:
        return f"it is not a list of 1 to {MAX_PREFIXES} prefixes"
    found = [(prefix, prefix_problem(prefix)) for prefix in prefixes]
    return next((f"{prefix!r:.200}: {problem}" for prefix, problem in found if problem), "")


def read_places(path: Path) -> Places:
    """Read `storage.json`. Raises ManifestError (ManifestMissing if there is no file) naming the field."""
    fields = Fields.of_file(path)
    default = fields.text("default")
    if default and prefix_problem(default):
        fields.refuse("default", f"a storage prefix; {prefix_problem(default)}")
    sites = fields.child("sites")
    listed = {site: _prefixes(sites, site) for site in sites.raw}
    return Places(listed, default, fields.raw.get("merged_fallback") is True)


def _prefixes(fields: Fields, site: str) -> tuple[str, ...]:
    prefixes: Sequence[str] = fields.raw[site]
    if prefixes_problem(prefixes):
        fields.refuse(site, f"storage prefixes; {prefixes_problem(prefixes)}")
    return tuple(prefixes)
