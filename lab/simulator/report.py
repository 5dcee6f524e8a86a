"""The report of a simulated month: one HTML file with charts, without references to other files."""

from __future__ import annotations

import json
from html import escape
from typing import Any

WIDTH, HEIGHT, BAR = 900, 260, 4
COLOURS = {"completed": "#2a7f4f", "held": "#c0392b", "active": "#2b6cb0"}
STYLE = (
    "body{font:15px/1.5 sans-serif;max-width:960px;margin:2em auto;padding:0 1em;color:#222}"
    "table{border-collapse:collapse}td,th{border:1px solid #ccc;padding:.2em .7em;text-align:left}"
    "svg{background:#f7f7f7;width:100%;height:auto}text{font-size:12px}"
)
DAY = 86_400.0


def render_report(report: dict[str, Any]) -> str:
    """Return the report as HTML."""
    load = report["load"]
    title = f"{load['dags']} DAGs of {load['nodes']} nodes in {load['days']:g} days, seed {load['seed']}"
    numbers = {key: value for key, value in report.items() if key not in ("samples", "gantt", "problems")}
    rows = "".join(
        f"<tr><th>{escape(key.replace('_', ' '))}</th><td>{escape(_text(value))}</td></tr>"
        for key, value in numbers.items()
    )
    problems = "".join(f"<li>{escape(one)}</li>" for one in report["problems"][:50])
    return (
        "<!doctype html><html lang=en><meta charset=utf-8>"
        f"<title>{escape(title)}</title><style>{STYLE}</style>"
        f"<h1>{escape(title)}</h1><table>{rows}</table>"
        f"<h2>Jobs done</h2>{_burn_down(report)}<h2>Requests</h2>{_gantt(report)}"
        f"<h2>Violated invariants</h2><ul>{problems or '<li>none</li>'}</ul></html>\n"
    )


def _text(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{key} {one}" for key, one in value.items() if one not in (0, {}))
    return json.dumps(value)


def _burn_down(report: dict[str, Any]) -> str:
    samples = report["samples"]
    end, most = max(at for at, _, _ in samples) or 1.0, max(done for _, done, _ in samples) or 1
    points = " ".join(
        f"{at / end * WIDTH:.1f},{HEIGHT - done / most * HEIGHT:.1f}" for at, done, _ in samples
    )
    ideal = min(report["ideal_days"] * DAY / end, 1.0) * WIDTH
    return (
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="Jobs done over time">'
        f'<line x1="0" y1="{HEIGHT}" x2="{ideal:.1f}" y2="0" stroke="#999" stroke-dasharray="4"/>'
        f'<polyline points="{points}" fill="none" stroke="#2b6cb0" stroke-width="2"/>'
        f'<text x="4" y="14">{most} jobs; dashed: every slot busy from the first second</text>'
        f'<text x="{WIDTH - 70}" y="{HEIGHT - 6}">day {end / DAY:.1f}</text></svg>'
    )


def _gantt(report: dict[str, Any]) -> str:
    rows = report["gantt"]
    end = max((until for _, _, until, _ in rows), default=1.0) or 1.0
    bars = "".join(
        f'<rect x="{begin / end * WIDTH:.1f}" y="{number * BAR}" height="{BAR - 1}"'
        f' width="{max((until - begin) / end * WIDTH, 1):.1f}" fill="{COLOURS.get(status, "#888")}">'
        f"<title>{escape(name)}: {escape(status)}</title></rect>"
        for number, (name, begin, until, status) in enumerate(rows)
    )
    height = max(len(rows) * BAR, BAR)
    return f'<svg viewBox="0 0 {WIDTH} {height}" role="img" aria-label="Requests over time">{bars}</svg>'
