"""Fragments: parts of pages that are replaced in place when what they show changes.

A fragment is the same for every person of a role, so that it is rendered once per change and not once per
open page. The web process serves it by address, with an ETag; the streams process sends it to open pages.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from django.template.loader import render_to_string

from wms2_project.access.roles import Role

Read = Callable[[str, Role], Mapping[str, Any]]
Topics = Callable[[str], frozenset[str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Fragment:
    """A part of a page. `of` is what it is about, for instance the name of a request."""

    name: str
    template: str
    read: Read  # of, role → context of the template
    topics: Topics  # of → topics whose changes it shows
    role: Role = Role.VIEWER


FRAGMENTS: dict[str, Fragment] = {}  # filled by console.pages; template tags cannot import the pages


@dataclass(frozen=True, slots=True)
class Rendered:
    """The markup of a fragment and its ETag."""

    html: str
    etag: str


def render(fragment: Fragment, of: str, role: Role) -> Rendered:
    """Read and render the fragment. What the reader raises for an unknown `of` passes through."""
    html = render_to_string(fragment.template, dict(fragment.read(of, role)))
    return Rendered(html, f'"{hashlib.blake2s(html.encode(), digest_size=12).hexdigest()}"')


def about(*topics: str) -> Topics:
    """Return the topics of a fragment that is not about anything in particular."""
    fixed = frozenset(topics)
    return lambda _of: fixed
