"""Small pieces of markup that all pages share: statuses, times, state bars, numbers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from wms2_project.markup import icon, status
from wms2_project.words import age_of

__all__ = ["Share", "age", "icon", "quantity", "sparkline", "state_bar", "status", "when"]


@dataclass(frozen=True, slots=True)
class Share:
    """One segment of a state bar."""

    label: str
    count: int
    tone: str = ""


def when(at: datetime | None) -> SafeString | str:
    """Return a UTC time. The script adds the local time as tooltip."""
    if at is None:
        return "–"
    at = at.astimezone(UTC)
    return format_html('<time class="wms2-figure" datetime="{}">{}</time>', f"{at:%FT%TZ}", f"{at:%F %R}")


def state_bar(shares: Iterable[Share], *, label: str, legend: bool = True) -> SafeString:
    """Return a stacked bar without empty shares; with a legend unless the text beside it says the same."""
    present = [share for share in shares if share.count]
    total = sum(share.count for share in present) or 1
    segments = format_html_join(
        "",
        '<span class="wms2-segment" data-tone="{}" style="flex-grow:{}" title="{}: {}"></span>',
        (
            (share.tone or "neutral", f"{share.count / total:.4f}", share.label, f"{share.count:,}")
            for share in present
        ),
    )
    entries = format_html_join(
        "",
        '<li><span class="wms2-dot" data-tone="{}" aria-hidden="true"></span>{} '
        '<b class="wms2-figure">{}</b></li>',
        ((share.tone or "neutral", share.label, f"{share.count:,}") for share in present),
    )
    listed = format_html('<ul class="wms2-legend">{}</ul>', entries) if legend else ""
    return format_html(
        '<div class="wms2-states"><div class="wms2-bar" role="img" aria-label="{}: {}">{}</div>{}</div>',
        label, ", ".join(f"{share.count:,} {share.label}" for share in present) or "none", segments, listed,
    )  # fmt: skip


def sparkline(points: Sequence[int], tone: str, label: str) -> SafeString:
    """Return a small line of the values, oldest first, with its meaning for screen readers."""
    top, last = max(*points, 1), max(len(points) - 1, 1)
    path = " ".join(f"{100 * n / last:.1f},{22 - 20 * value / top:.1f}" for n, value in enumerate(points))
    return format_html(
        '<svg class="wms2-spark" data-tone="{}" viewBox="0 0 100 24" preserveAspectRatio="none" role="img"'
        ' aria-label="{}: {} 24 hours ago, {} now"><polyline points="{}"/></svg>',
        tone or "neutral", label, points[0], points[-1], path,
    )  # fmt: skip


def age(at: datetime | None, now: datetime) -> SafeString | str:
    """Return how long ago it was. The time itself is the tooltip."""
    if at is None:
        return ""
    return format_html('<time datetime="{}">{}</time>', f"{at.astimezone(UTC):%FT%TZ}", age_of(at, now=now))


def quantity(number: float, unit: str = "") -> str:
    """Return a number with at most three digits and its unit: 1,234,000 events → 1.23 M events."""
    after = f"\N{NO-BREAK SPACE}{unit}" if unit else ""
    for scale, prefix in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e4, "k")):
        if abs(number) >= scale:
            size = number / (1e3 if prefix == "k" else scale)
            return f"{size:.3g}\N{NO-BREAK SPACE}{prefix}{after}"
    return f"{number:,.0f}{after}"
