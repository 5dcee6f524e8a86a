"""CRIC: the processing sites and their storages."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field, replace
from typing import Any

from cms.http import HttpOptions, JsonService
from cms.types import SiteInfo
from wms2_project.errors import ServiceUnavailable
from wms2_project.grammar import Name, matches

QUERY = "api/cms/site/query/"


@dataclass(frozen=True, slots=True)
class CricConfig:
    """`url` is the server, without the /api part."""

    url: str
    http: HttpOptions = field(default_factory=HttpOptions)


class CricClient:
    def __init__(self, config: CricConfig) -> None:
        self._service = JsonService(service="CRIC", base_url=config.url, options=config.http)

    def sites(self) -> list[SiteInfo]:
        """Return every processing site with its storages, both sorted by name.

        The answer has no column for the state, but the query filters by it: a site of `ANY` that `ACTIVE`
        leaves out is not in operation. Raises ServiceUnavailable if CRIC lists no active site at all.
        """
        every, active = (self._query(state) for state in ("ANY", "ACTIVE"))
        in_operation = {site.name for site in active}
        if not in_operation:
            raise ServiceUnavailable("CRIC lists no active site", cure="Ask the administrators of CRIC")
        return [replace(site, active=site.name in in_operation) for site in every]

    def _query(self, state: str) -> list[SiteInfo]:
        params: dict[str, str | int] = {"json": "", "preset": "data-processing", "rcsite_state": state}
        return parse_sites(self._service.get(QUERY, params))


def parse_sites(answer: Any) -> list[SiteInfo]:
    """Parse the flattened answer; sites and storages are many-to-many."""
    try:
        columns, rows = answer["desc"]["columns"], answer["result"]
        records = [dict(zip(columns, row, strict=True)) for row in rows]
        pairs = [(record["psn_name"], record["phedex_name"]) for record in records]
    except (KeyError, TypeError, ValueError) as error:
        raise ServiceUnavailable(f"CRIC answered in an unknown form: {error!r}") from error
    rses: defaultdict[str, set[str]] = defaultdict(set)
    for site, rse in pairs:
        if matches(Name.SITE, site) and matches(Name.RSE, rse):
            rses[site].add(rse)
    return [SiteInfo(name=site, rses=tuple(sorted(rses[site]))) for site in sorted(rses)]
