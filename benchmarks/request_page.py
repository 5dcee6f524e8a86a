"""B27: the page of a request whose DAG has ten thousand nodes: on the server, and in Chromium."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from statistics import median
from typing import Any

from django.conf import settings
from django.contrib.auth.models import User
from django.test import Client
from django.utils import timezone

from benchmarks.clients import serving
from benchmarks.dagfiles import NODES_AROUND_JOBS, NODES_PER_GROUP, dag_layout, scratch, status_text
from benchmarks.database import databases
from benchmarks.harness import Measured
from benchmarks.population import content
from benchmarks.rows import first_request
from benchmarks.run import NotRun, Run
from condor.dagfile import write_dag
from dags_app.models import DAG, MergeGroup, Round
from dags_app.states import DAGStatus, GroupStatus
from requests_app.models import ProgressSample, Request
from requests_app.states import RequestStatus

NODES = 10_000
SERVER_SEC, BROWSER_SEC = 0.150, 1.0
DRAWN_SEC = 1.0  # from the click to all nodes
SERVER_HOPED_SEC, BROWSER_HOPED_SEC = 0.050, 0.4
MOONSHOT = 0.4  # of the bar
CHROMIUM = "/usr/bin/chromium"
SAMPLES = 300
READY = "performance.getEntriesByName('wms2-nodes-ready').length"
PAINTED = "performance.getEntriesByName('first-contentful-paint')[0]?.startTime"
INTERACTIVE = "performance.getEntriesByName('wms2-graph-ready')[0].startTime"
DRAWN = "performance.getEntriesByName('wms2-nodes-ready')[0].startTime"
PAN = """() => new Promise((resolve) => {
  const { view } = document.getElementById("graph").graph;
  const began = performance.now();
  let frames = 0;
  const step = () => {
    view.panBy(frames % 2 ? 3 : -3, 1);
    frames += 1;
    if (performance.now() - began < 1000) requestAnimationFrame(step);
    else resolve(frames / ((performance.now() - began) / 1000));
  };
  requestAnimationFrame(step);
})"""


def open_request_page(run: Run) -> Measured:
    """B27: the largest of server time, time to interactive and time to draw, each divided by its limit."""
    made = databases(run)
    database = made.copy("request_page")
    made.use(database)
    nodes = run.size(NODES, 500)
    row = _running_request(nodes)
    operator = User.objects.create_superuser("operator")
    browser = Client(headers={"host": settings.ALLOWED_HOSTS[0]})
    browser.force_login(operator)
    page = f"/admin/requests_app/request/{row.pk}/change/"
    server = [_seconds(browser, page) for _ in range(run.repeat + 1)][1:]
    graph = [_seconds(browser, f"/api/v1/requests/{row.request_name}/graph") for _ in range(run.repeat)]
    session = browser.cookies[settings.SESSION_COOKIE_NAME].value
    with serving(run, database) as url, _chromium() as context:
        context.add_cookies([{"name": settings.SESSION_COOKIE_NAME, "value": session, "url": url}])
        opened = [_open(context, url + page) for _ in range(run.repeat + 1)][1:]
    interactive = [one["interactive"] - one["painted"] for one in opened]
    drawn, frames = [one["drawn"] for one in opened], median(one["fps"] for one in opened)
    note = (
        f"{nodes:,} nodes: page {1000 * median(server):.0f} ms, graph {1000 * median(graph):.0f} ms;"
        f" Chromium: {1000 * median(interactive):.0f} ms to interactive, graph drawn"
        f" {1000 * median(drawn):.0f} ms after the click, {frames:.0f} frames/s while panning"
    )
    in_browser = max(median(interactive) / BROWSER_SEC, median(drawn) / DRAWN_SEC)
    return Measured(
        max(median(server) / SERVER_SEC, in_browser),
        {"page": server, "graph": graph, "to interactive": interactive, "graph drawn": drawn},
        note=note,
        hoped=MOONSHOT * max(median(server) / SERVER_HOPED_SEC, in_browser / BROWSER_HOPED_SEC),
    )


def _seconds(browser: Client, path: str) -> float:
    began = time.perf_counter()
    content(browser, path)
    return time.perf_counter() - began


def _running_request(nodes: int) -> Request:
    """Create a request with a running DAG: half of its groups are collected, the others run."""
    row = first_request(status=RequestStatus.ACTIVE)
    groups, jobs = nodes // NODES_PER_GROUP, NODES_PER_GROUP - NODES_AROUND_JOBS
    directory = scratch() / "dag"
    write_dag(dag_layout(nodes, per_group=NODES_PER_GROUP), directory)
    round_ = Round.objects.create(
        workflow=row.workflow, number=0, jobs=jobs * groups, input_events=nodes * 100
    )
    dag = DAG.objects.create(
        workflow=row.workflow, round=round_, status=DAGStatus.RUNNING, token="benchmark",  # noqa: S106
        submit_dir=str(directory), total_nodes=nodes, submitted_at=timezone.now(),
    )  # fmt: skip
    metrics = {
        "peak_rss_mb": 1500, "wall_time_sec": 3600.0 * jobs, "jobs": jobs, "wall_time_per_event_sec": 1.0,
        "output_kb_per_event": 1.0, "cpu_efficiency": 0.9,
    }  # fmt: skip
    done = {"status": GroupStatus.COLLECTED, "metrics": metrics, "events_read": jobs * 100, "dag": dag}
    MergeGroup.objects.bulk_create(
        MergeGroup(
            round=round_, index=index, jobs=jobs, input_events=jobs * 100, site="T2_CH_CERN",
            **(done if index % 2 else {"nodes_done": jobs // 2, "nodes_running": jobs // 4}),
        )
        for index in range(groups)
    )  # fmt: skip
    for index in range(groups):
        _write_status(directory / f"mg_{index:06d}", first_job=index * jobs, jobs=jobs)
    now = timezone.now()
    ProgressSample.objects.bulk_create(
        ProgressSample(
            request=row, at=now - timedelta(minutes=SAMPLES - number), status=row.status,
            events_total=nodes * 100, events_done=number * nodes * 50 // SAMPLES,
        )
        for number in range(SAMPLES)
    )  # fmt: skip
    return row


def _write_status(group: Path, *, first_job: int, jobs: int) -> None:
    """Write the status file of a group of which half is done."""
    names = ["landing", *(f"proc_{first_job + number:06d}" for number in range(jobs)), "merge", "cleanup"]
    text = status_text(len(names), done=len(names) // 2)
    for number, name in enumerate(names):
        text = text.replace(f'Node = "mg_{number:06d}"', f'Node = "{name}"')
    (group / "group.dag.status").write_text(text)


@contextmanager
def _chromium() -> Iterator[Any]:
    """Start a headless Chromium."""
    try:
        from playwright.sync_api import sync_playwright
    except ImportError as error:
        raise NotRun("playwright is not installed") from error
    if not Path(CHROMIUM).exists():
        raise NotRun("Chromium is not installed: install the package chromium")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        try:
            yield browser.new_context(viewport={"width": 1600, "height": 1000})
        finally:
            browser.close()


def _open(context: Any, url: str) -> dict[str, float]:
    """Open the page.

    Return the seconds until it was painted, interactive and completely drawn, and the frames of a pan.
    """
    page = context.new_page()
    page.goto(url)
    page.wait_for_function(READY)
    found = {
        name: page.evaluate(expression) / 1000
        for name, expression in (("painted", PAINTED), ("interactive", INTERACTIVE), ("drawn", DRAWN))
    }
    page.locator("#graph").scroll_into_view_if_needed()
    found["fps"] = page.evaluate(PAN)
    page.close()
    return found
