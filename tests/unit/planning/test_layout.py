"""Resources of the nodes of a planned round."""

from __future__ import annotations

import re
from itertools import islice

import pytest

from condor.dagfile import render_group
from condor.layout import Asset, DagmanSettings, Retries, Throttles
from dags_app.planning.layout import LayoutSpec, build_layout
from dags_app.planning.plan import build_plan
from dags_app.planning.types import Estimate
from tests.unit.planning.factories import file, spec

LAYOUT = LayoutSpec(
    round_number=0,
    output_datasets=["/Muons/Run2031A-First-v1/AOD", "/Muons/Run2031A-First-v1/MINIAOD"],
    merged_lfn_base="/store/data",
    unmerged_lfn_base="/store/unmerged",
    payload={},
    pilot=None,
    job_files=[],
    assets=[Asset("scripts/elect_site.sh", b""), Asset("scripts/post.sh", b"")],
    throttles=Throttles(),
    retries=Retries(),
    dagman=DagmanSettings(),
    priority=0,
    memory_ceiling_per_core_mb=3000,
    wall_time_ceiling_minutes=2880,
    disk_ceiling_per_core_mb=20_000,
    held_grace_sec=60,
    max_transfer_output_mb=32,
)


@pytest.mark.parametrize(("kb_per_event", "disk_kb"), [(0.01, 100_000), (5_000, 2 * 800 * 5_000)])
def test_a_merge_requests_the_disk_for_its_input_and_output(kb_per_event: float, disk_kb: int) -> None:
    estimate = Estimate(1.0, 2000, kb_per_event, "measured")
    planned = spec(files_per_job=1)
    plan = build_plan(spec=planned, files=[file(number) for number in range(12)], estimate=estimate)
    layout = build_layout(plan=plan, spec=planned, layout=LAYOUT)
    texts = [render_group(layout, group) for group in islice(layout.groups, 1)]
    asked = re.search(r'^VARS merge .*DISK="(\d+)', texts[0], re.MULTILINE)
    assert asked is not None, texts[0]
    assert int(asked[1]) == disk_kb
