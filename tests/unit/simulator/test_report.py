"""The report of a simulated load: sizes of the load, and self-contained HTML."""

from __future__ import annotations

from typing import Any

import pytest

from lab.simulator.report import render_report

REPORT: dict[str, Any] = {
    "load": {"dags": 2, "nodes": 106, "days": 3.0, "seed": 7},
    "statuses": {"completed": 2, "held": 0},
    "problems": [],
    "ideal_days": 1.0,
    "tracking_sec": {"p50": 30.0},
    "samples": [(0.0, 0, 0), (86_400.0, 120, 1), (172_800.0, 212, 2)],
    "gantt": [("load0000", 0.0, 86_400.0, "completed"), ("load<1>", 72.0, 172_800.0, "held")],
}


def test_a_report_is_one_file_with_pictures() -> None:
    html = render_report(REPORT)

    assert "2 DAGs of 106 nodes in 3 days, seed 7" in html
    assert html.count("<svg ") == 2
    assert "<li>none</li>" in html
    assert "http" not in html


def test_names_and_problems_are_escaped() -> None:
    html = render_report(REPORT | {"problems": ["<b>lost</b>"]})

    assert "&lt;b&gt;lost" in html
    assert "load&lt;1&gt;" in html


@pytest.mark.parametrize("samples", [[(0.0, 0, 0)], [(0.0, 0, 0), (5.0, 0, 0)]])
def test_a_load_without_a_finished_job_is_reported(samples: list[tuple[float, int, int]]) -> None:
    assert "<polyline points=" in render_report(REPORT | {"samples": samples})
