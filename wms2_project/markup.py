"""Markup that lists and pages of the console share: statuses, bars, clipped texts."""

from __future__ import annotations

from django.utils.html import format_html
from django.utils.safestring import SafeString

# A tone is what a status declares as its colour. Each has an icon, so that no meaning is in the colour alone.
ICONS = {
    "success": "check_circle",
    "danger": "error",
    "warning": "warning",
    "info": "schedule",
    "primary": "play_circle",
    "": "radio_button_unchecked",
}


def icon(name: str) -> SafeString:
    """Return an icon that screen readers skip: the text beside it says the same."""
    return format_html('<span class="material-symbols-outlined wms2-icon" aria-hidden="true">{}</span>', name)


def status(value: str, tone: str = "") -> SafeString:
    """Return a status with its tone's colour and icon."""
    tone = tone if tone in ICONS else ""
    return format_html(
        '<span class="wms2-status" data-tone="{}">{}{}</span>',
        tone or "neutral", icon(ICONS[tone]), value.replace("_", " "),
    )  # fmt: skip


def clipped(text: str) -> SafeString:
    """Return one line of a long text. The tooltip has the whole text."""
    return format_html('<span class="wms2-clip" title="{}">{}</span>', text, text)


def progress_bar(fraction: float, *, label: str = "") -> SafeString:
    """Return a bar with its percentage."""
    percent = round(100 * min(max(fraction, 0.0), 1.0), 1)
    return format_html(
        '<div class="flex flex-row gap-2 items-center" title="{label}">'
        '<progress class="wms2-progress" max="100" value="{percent}">{percent} %</progress>'
        '<span class="wms2-figure whitespace-nowrap">{percent} %</span></div>',
        percent=f"{percent:g}",
        label=label,
    )
