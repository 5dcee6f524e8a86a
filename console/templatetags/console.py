"""Template tags of the console."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from django import template
from django.templatetags.static import static
from django.urls import reverse
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString, mark_safe

from console import markup
from console.fragments import FRAGMENTS, render
from wms2_project.access.roles import role_of
from wms2_project.middleware import events_origin
from wms2_project.words import size_of

STATIC = Path(__file__).parents[1] / "static"
CLASSIC_SCRIPT = "console/boot.js"
register = template.Library()
register.simple_tag(markup.icon)
register.simple_tag(markup.status)
register.simple_tag(markup.state_bar)
register.simple_tag(markup.sparkline)
register.filter(markup.when)
register.filter(markup.age)
register.filter(markup.quantity)
register.filter("size", size_of)


@register.filter
def as_json(value: Any) -> str:
    """Return a document as indented text."""
    return json.dumps(value, indent=2, sort_keys=True, ensure_ascii=False)


@register.filter
def words(value: str) -> str:
    """Return the value of an enumeration as words."""
    return value.replace("_", " ")


@register.filter
def inline_code(text: str) -> SafeString:
    """Return text whose parts between backticks are code."""
    parts = (("<code>{}</code>" if number % 2 else "{}", part) for number, part in enumerate(text.split("`")))
    return mark_safe("".join(format_html(form, part) for form, part in parts))  # noqa: S308 - each is escaped


@register.filter
def block_id(block_name: str) -> str:
    """Return the part of a block's name that differs between blocks of a dataset."""
    return f"#{block_name.rpartition('#')[2]}"


@register.simple_tag(takes_context=True)
def live(context: Mapping[str, Any], name: str, of: str = "") -> SafeString:
    """Render a fragment as a region that live.js keeps up to date."""
    fragment = FRAGMENTS[name]
    rendered = render(fragment, of, role_of(context["request"].user))
    return format_html(
        '<div id="live-{name}" data-live="{name}" data-of="{of}" data-url="{url}" data-etag="{etag}"'
        ' data-streams="{streams}">{html}</div>',
        name=name,
        of=of,
        url=f"{reverse('console:fragment', args=[name])}?{urlencode({'of': of})}",
        etag=rendered.etag,
        streams=_streams(context),
        html=mark_safe(rendered.html),  # noqa: S308 - a rendered template
    )


@register.simple_tag(takes_context=True)
def live_topics(context: Mapping[str, Any], *topics: str) -> SafeString:
    """Subscribe the page to topics, for a module that fetches its own data."""
    return format_html(
        '<div hidden data-topics="{}" data-streams="{}"></div>', " ".join(topics), _streams(context)
    )


@register.simple_tag
def preload_modules(*folders: str) -> SafeString:
    """Let the browser fetch the modules of these folders at once, not one import after another."""
    found = [path for folder in folders for path in sorted(STATIC.glob(f"{folder}/*.js"))]
    names = (path.relative_to(STATIC).as_posix() for path in found)
    links = ((static(name),) for name in names if name != CLASSIC_SCRIPT)
    return format_html_join("", '<link rel="modulepreload" href="{}">', links)


def _streams(context: Mapping[str, Any]) -> str:
    return f"{events_origin(context['request'])}/streams/events"
