"""Text of DAG files: outer DAG, group DAG, DAGMan configuration. Pure.

A rendered file must match the grammar below as a whole; otherwise RenderError is raised.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from condor.layout import DagLayout, DagmanSettings, GroupLayout, NodeLayout
from condor.types import RenderError
from sandbox import names

OUTER_DAG = "workflow.dag"
GROUP_DAG = "group.dag"
CONFIG = "dagman.config"
NEVER_RETRY_EXIT = 42
ABORT_EXIT = 43
DEFER_EXIT = 75
MAX_DEFER_SEC = 30
# The schedd requeues a DAGMan that exits above 2, and 1 is an ordinary failure: 2 tells the outer DAG that a
# group aborted.
GROUP_ABORTED = 2

_LANDING_ARGUMENTS = "$JOB $RETURN $JOBID"
_POST_ARGUMENTS = "$JOB $RETURN $RETRY $MAX_RETRIES $JOBID $DAG_STATUS $FAILED_COUNT"

_SITE = names.SITE.pattern
_VARS = r'NODE="\$\(JOB\)" RETRY="\$\(RETRY\)" MEM="\d+" CPUS="\d+" DISK="\d+" WALL="\d+" SITES='


def _block(role: str, scripts: str, category: str) -> str:
    """Return the grammar of one node: lines with its name (`@` in `scripts`) and the landing's sites."""
    name = "proc_[0-9]{6}" if role in ("proc", "runner") else role
    listed = rf'"{_SITE}(?:,{_SITE})*"\n'
    sites = {"landing": f"(?P<sites>{listed})", "runner": listed}.get(role, "(?P=sites)")
    known = f"(?P={role})"
    return (
        rf"JOB (?P<{role}>{name}) \.\./{role}\.sub\n"
        rf"VARS {known} {_VARS}{sites}"
        f"{scripts.replace('@', known)}"
        rf"(?:RETRY {known} \d+ UNLESS-EXIT 42\n)?"
        rf"ABORT-DAG-ON {known} 43 RETURN 2\n"
        rf"CATEGORY {known} {category}\n"
    )


_ELECT = (
    r"(?:SCRIPT DEFER 75 \d+ PRE @ \.\./scripts/landing\.sh \$JOB\n)?"  # absent in older directories
    rf"SCRIPT POST @ \.\./scripts/elect_site\.sh {re.escape(_LANDING_ARGUMENTS)}\n"
)
_CLASSIFY = (
    r"(?:SCRIPT DEFER 75 \d+ PRE @ \.\./scripts/pre\.sh \$JOB\n)?"
    rf"SCRIPT POST @ \.\./scripts/post\.sh {re.escape(_POST_ARGUMENTS)}(?: \d+){{4}}\n"
)
_GROUP_GRAMMAR = re.compile(
    r"CONFIG \.\./dagman\.config\nNODE_STATUS_FILE group\.dag\.status \d+\n"
    r"MAXJOBS Processing \d+\nMAXJOBS Merge \d+\nMAXJOBS Cleanup \d+\n"
    + _block("landing", _ELECT, "Landing")
    + f"(?:{_block('proc', _CLASSIFY, 'Processing')})+"
    + _block("merge", _CLASSIFY, "Merge")
    + _block("cleanup", _CLASSIFY, "Cleanup")
    + r"PARENT landing CHILD(?: proc_[0-9]{6})+\nPARENT(?: proc_[0-9]{6})+ CHILD merge\n"
    r"PARENT merge CHILD cleanup\n",
    re.ASCII,
)
_RUNNERS_GRAMMAR = re.compile(
    r"CONFIG \.\./dagman\.config\nNODE_STATUS_FILE group\.dag\.status \d+\nMAXJOBS Processing \d+\n"
    + f"(?:{_block('runner', _CLASSIFY, 'Processing')})+",
    re.ASCII,
)
_OUTER_GRAMMAR = re.compile(
    r"CONFIG dagman\.config\nNODE_STATUS_FILE workflow\.dag\.status \d+\nMAXJOBS MergeGroup \d+\n"
    r"(?:SUBDAG EXTERNAL (?P<group>mg_[0-9]{6}) group\.dag DIR (?P=group)\n"
    r"CATEGORY (?P=group) MergeGroup\nABORT-DAG-ON (?P=group) 2 RETURN 1\n)+",
    re.ASCII,
)
_CONFIG_GRAMMAR = re.compile(r"(?:DAGMAN_[A-Z_]+ = [A-Za-z0-9@().,/_ ]+\n)+", re.ASCII)


def render_outer(layout: DagLayout, group_names: Sequence[str]) -> str:
    """Render `workflow.dag`: one SUBDAG per merge group; a group that aborts ends the whole DAG."""
    head = (
        f"CONFIG {CONFIG}\n"
        f"NODE_STATUS_FILE {OUTER_DAG}.status {layout.settings.status_interval_sec}\n"
        f"MAXJOBS MergeGroup {layout.throttles.merge_groups}\n"
    )
    groups = (
        f"SUBDAG EXTERNAL {name} {GROUP_DAG} DIR {name}\n"
        f"CATEGORY {name} MergeGroup\n"
        f"ABORT-DAG-ON {name} {GROUP_ABORTED} RETURN 1\n"
        for name in group_names
    )
    return _checked(head + "".join(groups), _OUTER_GRAMMAR, OUTER_DAG)


def render_group(layout: DagLayout, group: GroupLayout) -> str:
    """Render `group.dag`: landing, then processing nodes, then merge, then cleanup. Or runners alone."""
    if layout.pull:
        return _render_runners(layout, group)
    retries, throttles, scripts = layout.retries, layout.throttles, _scripts(layout)
    sites = ",".join(group.sites)
    elect = (
        f"SCRIPT DEFER {DEFER_EXIT} {layout.settings.status_interval_sec} PRE @ ../scripts/landing.sh $JOB\n"
        f"SCRIPT POST @ ../scripts/elect_site.sh {_LANDING_ARGUMENTS}\n"
    )
    processing = _node_renderer("proc", sites, scripts, retries.processing, "Processing")
    names = " ".join([node.name for node in group.nodes])
    parts = [
        f"CONFIG ../{CONFIG}\n"
        f"NODE_STATUS_FILE {GROUP_DAG}.status {layout.settings.status_interval_sec}\n"
        f"MAXJOBS Processing {throttles.processing}\n"
        f"MAXJOBS Merge {throttles.merge}\n"
        f"MAXJOBS Cleanup {throttles.cleanup}\n",
        _node_renderer("landing", sites, elect, retries.landing, "Landing")(layout.landing),
        *map(processing, group.nodes),
        _node_renderer("merge", sites, scripts, retries.merge, "Merge")(group.merge or layout.merge),
        _node_renderer("cleanup", sites, scripts, retries.cleanup, "Cleanup")(layout.cleanup),
        f"PARENT landing CHILD {names}\nPARENT {names} CHILD merge\nPARENT merge CHILD cleanup\n",
    ]
    return _checked("".join(parts), _GROUP_GRAMMAR, f"{group.name}/{GROUP_DAG}")


def _render_runners(layout: DagLayout, group: GroupLayout) -> str:
    """Render `group.dag` of a batch of runners, which depend on nothing."""
    head = (
        f"CONFIG ../{CONFIG}\n"
        f"NODE_STATUS_FILE {GROUP_DAG}.status {layout.settings.status_interval_sec}\n"
        f"MAXJOBS Processing {layout.throttles.processing}\n"
    )
    render = _node_renderer(
        "runner", ",".join(group.sites), _scripts(layout), layout.retries.processing, "Processing"
    )
    text = head + "".join(map(render, group.nodes))
    return _checked(text, _RUNNERS_GRAMMAR, f"{group.name}/{GROUP_DAG}")


def amend_group(
    text: str, *, sites: Sequence[str], without: frozenset[str], memory_mb: int | None, retries: int | None
) -> str:
    """Return a `group.dag` with other sites, fewer nodes, or other memory or retries for processing."""
    head, *parts = re.split(r"(?m)^(?=JOB |PARENT )", text)
    kept = [head]
    for part in parts:
        kind, name = part.split(" ", 2)[:2]
        if kind == "PARENT":
            kept.append(" ".join(word for word in part.rstrip("\n").split(" ") if word not in without) + "\n")
        elif name not in without:
            part = re.sub(r'SITES="[^"]*"', f'SITES="{",".join(sites)}"', part)
            if name.startswith("proc_"):
                part = _with_numbers(part, name, memory_mb, retries)
            kept.append(part)
    return _checked("".join(kept), _GROUP_GRAMMAR, GROUP_DAG)


def drop_groups(text: str, groups: frozenset[str]) -> str:
    """Return a `workflow.dag` without these groups."""
    kept = [line for line in text.splitlines(keepends=True) if not groups & set(line.split())]
    return _checked("".join(kept), _OUTER_GRAMMAR, OUTER_DAG)


def _with_numbers(part: str, name: str, memory_mb: int | None, retries: int | None) -> str:
    if memory_mb is not None:
        part = re.sub(r'MEM="\d+"', f'MEM="{memory_mb}"', part)
    if retries is None:
        return part
    part = re.sub(r"(?m)^RETRY .*\n", "", part)
    line = f"RETRY {name} {retries} UNLESS-EXIT {NEVER_RETRY_EXIT}\n" if retries else ""
    return re.sub(r"(?m)^(?=ABORT-DAG-ON )", line, part)


def render_config(settings: DagmanSettings) -> str:
    """Render `dagman.config`, which sets all that WMS2 relies on, independent of the pool's configuration."""
    entries = {
        "DAGMAN_USE_STRICT": "0",
        "DAGMAN_USE_DIRECT_SUBMIT": "True",
        "DAGMAN_GENERATE_SUBDAG_SUBMITS": "True",
        "DAGMAN_AUTO_RESCUE": "True",
        "DAGMAN_ALWAYS_RUN_POST": "False",
        "DAGMAN_PUT_FAILED_JOBS_ON_HOLD": "False",
        "DAGMAN_SUPPRESS_NOTIFICATION": "True",
        "DAGMAN_DEFAULT_NODE_LOG": "@(DAG_DIR)/@(DAG_FILE).nodes.log",
        "DAGMAN_QUEUE_UPDATE_INTERVAL": settings.queue_update_sec,
        "DAGMAN_USER_LOG_SCAN_INTERVAL": settings.log_scan_sec,
        "DAGMAN_MAX_JOBS_IDLE": settings.max_idle_jobs,
        "DAGMAN_MAX_POST_SCRIPTS": settings.max_post_scripts,
    }
    text = "".join(f"{key} = {value}\n" for key, value in entries.items())
    return _checked(text, _CONFIG_GRAMMAR, CONFIG)


def _scripts(layout: DagLayout) -> str:
    """Render the SCRIPT lines. POST classifies an attempt; PRE defers the next one while it cools off.

    POST gets the ceilings up to which it may raise a node's memory, wall time and disk.
    """
    cooloff_sec = layout.retries.cooloff_sec
    defer = min(cooloff_sec, MAX_DEFER_SEC)
    pre = f"SCRIPT DEFER {DEFER_EXIT} {defer} PRE @ ../scripts/pre.sh $JOB\n" if defer else ""
    ceilings = f"{layout.memory_ceiling_mb} {layout.wall_time_ceiling_minutes} {layout.disk_ceiling_kb}"
    return f"{pre}SCRIPT POST @ ../scripts/post.sh {_POST_ARGUMENTS} {cooloff_sec} {ceilings}\n"


def _node_renderer(
    role: str, sites: str, scripts: str, retries: int, category: str
) -> Callable[[NodeLayout], str]:
    """Return a function that renders a node of the role; `@` in the scripts stands for its name."""
    retry = f"RETRY @ {retries} UNLESS-EXIT {NEVER_RETRY_EXIT}\n" if retries else ""
    abort = f"ABORT-DAG-ON @ {ABORT_EXIT} RETURN {GROUP_ABORTED}\n"
    rest = f"{scripts}{retry}{abort}CATEGORY @ {category}\n"

    def render(node: NodeLayout) -> str:
        name = node.name
        return (
            f"JOB {name} ../{role}.sub\n"
            f'VARS {name} NODE="$(JOB)" RETRY="$(RETRY)" MEM="{node.memory_mb}" CPUS="{node.cpus}"'
            f' DISK="{node.disk_kb}" WALL="{node.wall_minutes}" SITES="{sites}"\n'
            f"{rest.replace('@', name)}"
        )

    return render


def _checked(text: str, grammar: re.Pattern[str], file_name: str) -> str:
    if not grammar.fullmatch(text):
        raise RenderError(f"{file_name} contains a line that does not match the DAG grammar")
    return text
