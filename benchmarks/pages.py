"""B9, B10: a page of GET /requests with a million requests. B11: the console's list."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Callable
from datetime import timedelta
from statistics import median
from typing import Any
from urllib.parse import urlencode

from benchmarks.harness import Measured, Sample, alternate, percentile, stopped
from benchmarks.population import PAGE, Population, content, population
from benchmarks.rows import EPOCH
from benchmarks.run import Run

REST = "/api/v1/requests"
CONSOLE = "/admin/requests_app/request/"
SAME_PAGE = """
SELECT json_build_object('next', %(next)s::text, 'previous', NULL, 'results', json_agg(page))::text FROM (
  SELECT r.id AS request_id, r.request_name, r.status, r.status_since, r.wait_reason, r.last_error, r.attempt,
         r.priority, r.rank, r.urgent, r.campaign, r.requestor, r."group", r.submitted_by, w.input_dataset,
         r.processing_version, r.correlation_id, r.version, r.created_at, r.updated_at,
         json_build_object('id', w.id, 'status', r.status) AS workflow,
         json_build_object(
           'fraction',
           round(least(coalesce(w.input_events_done::numeric / nullif(w.input_events, 0), 0), 1), 4),
           'events_total', w.input_events, 'events_done', w.input_events_done,
           'events_excluded', w.input_events_excluded,
           'events_written', coalesce(g.written, 0), 'groups_total', g.groups, 'groups_done', g.done,
           'jobs_total', coalesce(g.jobs, 0), 'files', o.files, 'blocks', b.blocks,
           'blocks_announced', b.announced, 'estimated_completion', g.began) AS progress,
         json_build_object(
           'self', %(path)s || '/' || r.request_name,
           'timeline', %(path)s || '/' || r.request_name || '/timeline',
           'progress', %(path)s || '/' || r.request_name || '/progress',
           'why', %(path)s || '/' || r.request_name || '/why',
           'versions', %(path)s || '/' || r.request_name || '/versions',
           'workflow', '/api/v1/workflows/' || w.id,
           'public', '/api/v1/public/requests/' || r.id) AS links
    FROM (SELECT * FROM requests_app_request ORDER BY created_at DESC, id DESC LIMIT %(size)s) r
    JOIN dags_app_workflow w ON w.id = r.workflow_id
    LEFT JOIN LATERAL (
      SELECT count(*) AS groups, count(*) FILTER (WHERE m.status = 'collected') AS done, sum(m.jobs) AS jobs,
             sum(m.events_written) AS written, min(d.created_at) AS began
        FROM dags_app_mergegroup m JOIN dags_app_round d ON d.id = m.round_id
       WHERE d.workflow_id = w.id) g ON true
    LEFT JOIN LATERAL (
      SELECT count(*) AS blocks, count(*) FILTER (WHERE k.status = 'announced') AS announced
        FROM outputs_app_outputblock k JOIN outputs_app_outputdataset s ON s.id = k.dataset_id
       WHERE s.workflow_id = w.id) b ON true
    LEFT JOIN LATERAL (
      SELECT count(*) AS files FROM outputs_app_outputfile p
        JOIN outputs_app_outputblock k ON k.id = p.block_id
        JOIN outputs_app_outputdataset s ON s.id = k.dataset_id
       WHERE s.workflow_id = w.id) o ON true
   ORDER BY r.created_at DESC, r.id DESC) page"""


def seconds_of(work: Callable[[], object], *, times: int) -> list[float]:
    """Return the seconds of each call, after one call to warm up."""
    work()
    sample = stopped(work)
    return [sample() for _ in range(times)]


def first_page(run: Run) -> Measured:
    """B9: the first page of GET /requests."""
    everything = population(run)
    everything.databases.use(everything.many)
    with everything.databases.connect(everything.many) as server:
        ours = rest_page(everything, REST)
        values = {"next": "http://127.0.0.1/…", "path": REST, "size": PAGE}

        def theirs() -> Any:
            row = server.execute(SAME_PAGE, values).fetchone()
            return row[0] if row else ""

        _check_same(json.loads(ours()), json.loads(theirs()))

        pairs = alternate(stopped(ours), stopped(theirs), repeat=run.size(500, 10))
    worst = percentile(pairs.candidate, 99), percentile(pairs.reference, 99)
    note = (
        f"{everything.rows:,} rows: p99 {1000 * worst[0]:.0f} ms and {1000 * worst[1]:.0f} ms, "
        f"median {1000 * median(pairs.candidate):.0f} ms and {1000 * median(pairs.reference):.1f} ms"
    )
    return Measured(worst[0] / worst[1], pairs.as_samples(), note=note, spread=pairs.spread)


def _check_same(ours: dict[str, Any], theirs: dict[str, Any]) -> None:
    """Check that application and reference return the same rows."""
    assert [row.keys() for row in ours["results"]] == [row.keys() for row in theirs["results"]]
    for one, other in zip(ours["results"], theirs["results"], strict=True):
        for name in ("request_name", "workflow", "links"):
            assert one[name] == other[name]
        for name in ("events_total", "groups_done", "jobs_total", "files", "blocks"):
            assert one["progress"][name] == other["progress"][name]


def deep_page(run: Run) -> Measured:
    """B10: a page far from the start of GET /requests."""
    everything, times = population(run), run.size(100, 3)
    everything.databases.use(everything.many)
    before = EPOCH + timedelta(seconds=everything.deep + 1)
    cursor = b64encode(urlencode({"p": str(before)}).encode()).decode()
    deep = rest_page(everything, f"{REST}?{urlencode({'cursor': cursor})}")
    first = rest_page(everything, REST)
    assert json.loads(deep())["results"][0]["request_name"] == f"benchmark_{everything.deep}"
    assert len(json.loads(deep())["results"]) == PAGE
    pairs = alternate(stopped(deep), stopped(first), repeat=times)
    number = (everything.rows - everything.deep) // PAGE
    note = f"page {number:,} of {everything.rows:,} rows"
    return Measured(pairs.ratio, pairs.as_samples(), note=note, spread=pairs.spread)


def rest_page(everything: Population, path: str) -> Callable[[], bytes]:
    """Return a function that fetches the page as a client with a token, through the whole application."""
    return lambda: content(everything.browser, path, authorization=f"Bearer {everything.token}")


def console_list(run: Run) -> Measured:
    """B11: the list of requests in the console."""
    everything, times = population(run), run.size(10, 2)

    def page_in(database: str) -> Sample:
        def sample() -> float:
            everything.databases.use(database)
            return median(seconds_of(lambda: content(everything.browser, CONSOLE), times=times))

        return sample

    pairs = alternate(page_in(everything.many), page_in(everything.few), repeat=run.repeat)
    note = f"{everything.rows:,} rows: {1000 * median(pairs.candidate):.0f} ms"
    return Measured(pairs.ratio, pairs.as_samples(), note=note, spread=pairs.spread)
