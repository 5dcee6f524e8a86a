"""The queries of progress: aggregates over groups, outputs, and the files of pull requests."""

from __future__ import annotations

from dags_app.planning.types import SERVICE_NODES

SHOWN_GROUPS = 200

# Events of a group's finished jobs, until its outputs are collected. The first node is the landing.
RUNNING_EVENTS = """CASE m.status WHEN 'collected' THEN 0 WHEN 'done' THEN m.input_events
  ELSE m.input_events * least(greatest(m.nodes_done - 1, 0), m.jobs) / m.jobs END"""
# Unfinished work of a closed round is planned again and counted there.
GROUP_PARTS = f"""
LEFT JOIN LATERAL (
  SELECT count(*) AS groups, count(*) FILTER (WHERE m.status = 'collected') AS done, sum(m.jobs) AS jobs,
         sum(m.events_read) AS read, sum(m.events_written) AS written, sum(m.input_events) AS planned,
         sum(m.input_events) FILTER (WHERE m.status = 'collected' AND d.status = 'planned') AS open_done,
         sum({RUNNING_EVENTS}) AS running,
         min(d.created_at) AS began,
         count(*) FILTER (WHERE m.finished_at > %(recent)s) AS recent_groups,
         sum(m.events_read) FILTER (WHERE m.finished_at > %(recent)s) AS recent_read
    FROM dags_app_mergegroup m JOIN dags_app_round d ON d.id = m.round_id
   WHERE d.workflow_id = w.id AND (d.status = 'planned' OR m.status = 'collected')) g ON true"""  # noqa: S608 — ours
# Files of pull requests; no rows are read for others.
FILE_PARTS = """
LEFT JOIN LATERAL (
  SELECT count(*) AS files, count(*) FILTER (WHERE i.state = 'processed') AS done,
         count(*) FILTER (WHERE i.state = 'excluded') AS excluded, sum(i.events) AS events,
         sum(i.events) FILTER (WHERE i.state = 'processed') AS events_done
    FROM dags_app_inputfile i WHERE i.workflow_id = w.id AND w.allocation = 'pull') f ON true
LEFT JOIN LATERAL (
  SELECT sum(r.files_processed) AS recent FROM dags_app_runner r
   WHERE r.workflow_id = w.id AND w.allocation = 'pull' AND r.ended_at > %(recent)s) u ON true
LEFT JOIN LATERAL (
  SELECT min(d.created_at) AS began
    FROM dags_app_round d WHERE d.workflow_id = w.id AND w.allocation = 'pull') o ON true"""
PARTS = f"""{GROUP_PARTS}{FILE_PARTS}
LEFT JOIN LATERAL (
  SELECT count(*) AS blocks, count(*) FILTER (WHERE k.status = 'announced') AS announced,
         sum(p.files) AS files
    FROM outputs_app_outputdataset s
    JOIN outputs_app_outputblock k ON k.dataset_id = s.id
    LEFT JOIN LATERAL (
      SELECT count(*) AS files FROM outputs_app_outputfile WHERE block_id = k.id) p ON true
   WHERE s.workflow_id = w.id) b ON true"""  # noqa: S608 — ours
SUMS = """
SELECT w.id, w.total_events, w.filter_efficiency, w.input_dataset IS NULL, w.input_events,
       w.input_events_excluded, w.input_events_done, g.open_done, g.running, g.groups, g.done, g.jobs, g.read,
       g.written, g.planned, g.began, g.recent_groups, g.recent_read, b.blocks, b.announced, b.files,
       f.files, f.done, f.excluded, f.events, f.events_done, u.recent, o.began"""
# Groups with the nodes of their DAGs. All nodes of a finished group count as done.
COUNTED = f"""(
  SELECT g.id, g.round_id, g.index, g.status, g.site, g.jobs, g.input_events, g.events_read, g.events_written,
         g.finished_at, n.nodes,
         CASE WHEN n.complete THEN n.nodes ELSE least(g.nodes_done, n.nodes) END AS nodes_done,
         CASE WHEN n.complete THEN 0 ELSE least(g.nodes_failed, n.nodes - least(g.nodes_done, n.nodes)) END
           AS nodes_failed,
         CASE WHEN n.complete THEN 0 ELSE g.nodes_running END AS nodes_running,
         CASE WHEN n.complete THEN 0 ELSE g.nodes_idle END AS nodes_idle,
         CASE WHEN n.complete THEN 0 ELSE g.nodes_held END AS nodes_held
    FROM dags_app_mergegroup g, LATERAL (
         SELECT g.jobs + {SERVICE_NODES} AS nodes, g.status IN ('done', 'collected') AS complete) n)"""  # noqa: S608 — ours
PAGE = f"{SUMS} FROM dags_app_workflow w {PARTS} WHERE w.id = ANY(%(workflows)s)"
_WITHOUT_OUTPUTS = "LEFT JOIN LATERAL (SELECT 0 AS blocks, 0 AS announced, 0 AS files) b ON true"
PACES = f"""{SUMS} FROM dags_app_workflow w {GROUP_PARTS}{FILE_PARTS} {_WITHOUT_OUTPUTS}
WHERE w.id = ANY(%(workflows)s)"""
DETAIL = f"""{SUMS}, x.rounds, y.groups, z.dag FROM dags_app_workflow w {PARTS}
LEFT JOIN LATERAL (
  SELECT json_agg(r ORDER BY r.number) AS rounds FROM (
    SELECT d.number, d.kind, d.status, d.jobs, d.input_events, d.created_at, d.resolved_at,
           count(m.id) AS groups,
           count(m.id) FILTER (WHERE m.status = 'planned') AS planned,
           count(m.id) FILTER (WHERE m.status = 'done') AS done,
           count(m.id) FILTER (WHERE m.status = 'collected') AS collected,
           count(m.id) FILTER (WHERE m.status = 'failed') AS failed,
           coalesce(sum(m.events_read), 0) AS events_read,
           coalesce(sum(m.events_written), 0) AS events_written,
           coalesce(round(least(sum(m.events_read + {RUNNING_EVENTS})::numeric
                               / nullif(d.input_events, 0), 1), 4), 0)
             AS fraction,
           coalesce(sum(m.nodes), 0) AS nodes, coalesce(sum(m.nodes_done), 0) AS nodes_done,
           coalesce(sum(m.nodes_failed), 0) AS nodes_failed,
           coalesce(sum(m.nodes - m.nodes_done - m.nodes_failed) FILTER (WHERE m.status = 'failed'), 0)
             AS nodes_skipped,
           greatest(d.jobs - coalesce(sum(m.jobs), 0), 0) AS jobs_dropped
      FROM dags_app_round d LEFT JOIN {COUNTED} m ON m.round_id = d.id
     WHERE d.workflow_id = w.id GROUP BY d.id) r) x ON true
LEFT JOIN LATERAL (
  SELECT json_agg(n ORDER BY n.index) AS groups FROM (
    SELECT m.index, m.status, m.site, m.jobs, m.nodes_done, m.nodes_failed, m.nodes_running, m.nodes_idle,
           m.nodes_held, m.input_events, m.events_read, m.events_written, m.finished_at
      FROM {COUNTED} m
     WHERE m.round_id = (SELECT id FROM dags_app_round WHERE workflow_id = w.id ORDER BY number DESC LIMIT 1)
     ORDER BY m.index LIMIT {SHOWN_GROUPS}) n) y ON true
LEFT JOIN LATERAL (
  SELECT row_to_json(v) AS dag FROM (
    SELECT token, status, nodes_running, nodes_idle, nodes_held FROM dags_app_dag
     WHERE workflow_id = w.id AND status IN ('submitted', 'running', 'halted')
     ORDER BY created_at DESC LIMIT 1) v) z ON true
WHERE w.id = ANY(%(workflows)s)"""  # noqa: S608 — ours
