"""Small layouts for the tests of DAG files."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from condor.layout import Asset, DagLayout, GroupLayout, NodeLayout

WORKFLOW_ID = "0b8e5a3c-7a51-4d6a-9a3f-0d5f3c1e2b44"
ASSETS = (
    Asset("run.sh", b"#!/bin/sh\nmkdir -p back\n", executable=True),
    Asset("sandbox.tar.gz", b"not really a tarball"),
    Asset("scripts/elect_site.sh", b"#!/bin/sh\n", executable=True),
    Asset("scripts/post.sh", b"#!/bin/sh\n", executable=True),
)


def make_node(index: int, **changes: Any) -> NodeLayout:
    values = {"memory_mb": 2000, "cpus": 1, "disk_kb": 1_000_000, "wall_minutes": 480} | changes
    return NodeLayout(f"proc_{index:06d}", **values)


def make_group(
    index: int, *, nodes: int = 2, sites: tuple[str, ...] = ("T1_US_FNAL", "T2_CH_CERN")
) -> GroupLayout:
    first = index * nodes
    return GroupLayout(
        name=f"mg_{index:06d}",
        sites=sites,
        nodes=[make_node(first + n) for n in range(nodes)],
        manifest=b'{"schema": 1}\n',
    )


def make_layout(*, groups: int | Iterable[GroupLayout] = 2, nodes: int = 2, **changes: Any) -> DagLayout:
    if isinstance(groups, int):
        groups = [make_group(index, nodes=nodes) for index in range(groups)]
    values: dict[str, Any] = {
        "request_name": "ana_Run2018_ReReco-v1",
        "workflow_id": WORKFLOW_ID,
        "groups": groups,
        "assets": ASSETS,
    }
    return DagLayout(**(values | changes))
