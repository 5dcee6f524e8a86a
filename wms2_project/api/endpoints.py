"""All endpoints of the URL configuration, with the role each method needs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from django.urls import URLPattern, URLResolver, get_resolver

METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE")
_ROOT = "api/v1/"


def endpoints(resolver: URLResolver | None = None, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield every route below /api/v1/ with its view class, except those that jobs call with their tokens."""
    for entry in (resolver or get_resolver()).url_patterns:
        route = prefix + str(entry.pattern)
        if isinstance(entry, URLResolver):
            yield from endpoints(entry, route)
        elif isinstance(entry, URLPattern) and route.startswith(_ROOT):
            view: Any = entry.callback.view_class  # type: ignore[attr-defined]
            if not getattr(view, "for_jobs", False):
                yield route.removeprefix(_ROOT), view


def render_roles() -> str:
    """Return the roles per endpoint and method as Markdown."""
    lines = ["| endpoint | " + " | ".join(METHODS) + " |", "|---" * (len(METHODS) + 1) + "|"]
    for route, view in sorted(endpoints(), key=lambda pair: pair[0]):
        cells = [view.roles[method].name.lower() if method in view.roles else "" for method in METHODS]
        lines.append(f"| `{route}` | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"
