"""Search by a part of a name: requests, sites, datasets, pages, and actions such as `stop NAME`.

Every query is bounded and uses an index, also among millions of requests.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import islice
from typing import TypeVar

from django.conf import settings
from django.db import connection
from django.db.models import Model, QuerySet
from django.urls import reverse

from outputs_app.models import OutputDataset
from requests_app.models import Request
from requests_app.operations import REQUEST_OPERATIONS
from requests_app.selectors.requests import open_requests
from requests_app.states import TERMINAL
from sites_app.models import Site
from sites_app.operations import OPERATIONS as SITE_OPERATIONS
from wms2_project.access.roles import Role
from wms2_project.console import address_of
from wms2_project.operations import Operation

Row = TypeVar("Row", bound=Model)
MOST = 7  # of each kind
MOST_CANDIDATES = 200  # open requests that are checked for an action
SHORTEST_PART = 3  # shorter texts have no trigram: only beginnings are searched


@dataclass(frozen=True, slots=True)
class Hit:
    """One result: its kind, text, a hint beside it, and where it leads."""

    kind: str
    text: str
    hint: str
    url: str


def search(text: str, *, role: Role) -> list[Hit]:
    """Return actions, requests, sites, datasets and pages that match, the best of each kind first."""
    text = " ".join(text.replace("\0", "").split())[:200]
    if not text:
        return list(_pages("", role))
    verb, _, rest = text.partition(" ")
    hits = [*_actions(verb.lower(), rest, role)]
    hits += _requests(text)
    hits += _sites(text)
    hits += _datasets(text)
    return [*hits, *_pages(text, role)]


def _requests(text: str) -> Iterator[Hit]:
    rows = Request.objects.only("request_name", "status", "campaign")
    for row in _named(rows, "request_name", text):
        hint = " · ".join(part for part in (row.status.replace("_", " "), row.campaign) if part)
        yield Hit("request", row.request_name, hint, address_of("admin:requests_app_request_change", row.pk))


def _sites(text: str) -> Iterator[Hit]:
    for row in Site.objects.filter(name__icontains=text).order_by("name")[:MOST]:
        yield Hit("site", row.name, row.status, reverse("console:site", args=[row.name]))


def _datasets(text: str) -> Iterator[Hit]:
    rows = OutputDataset.objects.select_related("workflow")
    for row in _named(rows, "dataset_name", text):
        url = address_of("admin:outputs_app_outputdataset_change", row.pk)
        yield Hit("dataset", row.dataset_name, row.workflow.request_name, url)


def _named(rows: QuerySet[Row], column: str, text: str) -> list[Row]:
    """Return rows whose name begins with the text, then those that contain it."""
    found = list(rows.filter(**{f"{column}__startswith": text}).order_by(column)[:MOST])
    if len(found) < MOST and len(text) >= SHORTEST_PART and has_trigrams():
        known = [row.pk for row in found]
        within = rows.filter(**{f"{column}__icontains": text}).exclude(pk__in=known)
        found += within[: MOST - len(found)]
    return found


@cache
def has_trigrams() -> bool:
    """Return whether names are indexed by trigrams."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT to_regclass('request_name_trigram') IS NOT NULL")
        row = cursor.fetchone()
    return bool(row and row[0])


def _actions(verb: str, rest: str, role: Role) -> Iterator[Hit]:
    """Yield operations whose name begins with the verb, on requests and sites that the rest names.

    A whole verb alone offers them for open requests.
    """
    if not rest and verb not in {one.name for one in REQUEST_OPERATIONS}:
        return
    if chosen := _chosen(REQUEST_OPERATIONS, verb, role):
        pages, rows = "admin:requests_app_request", _candidates(rest)
        hits = (hit for row in rows for hit in _allowed(chosen, row, pages))
        yield from islice(hits, MOST)
    if rest and (chosen := _chosen(SITE_OPERATIONS, verb, role)):
        for site in Site.objects.filter(name__icontains=rest).order_by("name")[:MOST]:
            yield from _allowed(chosen, site, "admin:sites_app_site")


def _candidates(text: str) -> Iterator[Request]:
    """Yield requests that an action may be about: open ones first, then ended ones."""
    opened = open_requests().filter(request_name__icontains=text).select_related("workflow")
    yield from opened.order_by("request_name")[:MOST_CANDIDATES]
    if not text:
        return
    ended = Request.objects.filter(status__in=sorted(TERMINAL)).select_related("workflow")
    yield from _named(ended, "request_name", text)


def _chosen(operations: Sequence[Operation], verb: str, role: Role) -> list[Operation]:
    named = [one for one in operations if one.name.startswith(verb) or one.label.lower().startswith(verb)]
    return [one for one in named if one.in_console and role >= one.role]


def _allowed(operations: Sequence[Operation], row: Model, pages: str) -> Iterator[Hit]:
    for one in operations:
        if one.allows(row):
            yield Hit("action", f"{one.label} {row}", one.effect, address_of(f"{pages}_{one.name}", row.pk))


def _pages(text: str, role: Role) -> Iterator[Hit]:
    """Yield pages of the menu."""
    for group in settings.UNFOLD["SIDEBAR"]["navigation"]:
        for item in group["items"]:
            hidden = "permission" in item and role < Role.OPERATOR  # what some roles do not see
            if not hidden and text.lower() in item["title"].lower():
                yield Hit("page", item["title"], group.get("title", ""), str(item["link"]))
