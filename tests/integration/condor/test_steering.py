"""Sites of groups that land later, on the real pool."""

from __future__ import annotations

import json
from typing import Any

from condor.dag_edits import write_landing_sites
from condor.layout import GroupLayout, NodeLayout, Throttles
from sandbox.elect_site import elected_site
from tests.pool_dags import Bench


def test_groups_that_start_after_a_change_of_sites_land_at_allowed_sites(bench: Bench) -> None:
    first, second, third = bench.sites[:3]
    node: dict[str, Any] = {"memory_mb": 64, "cpus": 1, "disk_kb": 1024, "wall_minutes": 10}
    groups = [
        GroupLayout(
            name=f"mg_{index:06d}", sites=[first], nodes=[NodeLayout(f"proc_{index:06d}", **node)],
            manifest=json.dumps({f"proc_{index:06d}": "ok"}, indent=0).encode(),
        )
        for index in range(3)
    ]  # fmt: skip
    written = bench.write(bench.layout(groups=groups, throttles=Throttles(merge_groups=1)))
    directory = written.dag_file.parent
    name = bench.submit(written)
    bench.wait(lambda: elected_site(directory / "mg_000000"))

    write_landing_sites(directory, {"mg_000001": [], "mg_000002": [third]})
    result = directory / "mg_000001" / "group.dag.dagman.out"
    bench.wait(lambda: result.exists() and "DEFER" in result.read_text().upper())
    assert not [
        job for job in bench.jobs(name, "Iwd") if job["JobUniverse"] == 5 and "mg_000001" in job["Iwd"]
    ]

    write_landing_sites(directory, {"mg_000001": [second], "mg_000002": [third]})
    assert bench.finish(name).succeeded
    landed = [elected_site(directory / f"mg_{index:06d}") for index in range(3)]
    assert landed == [first, second, third]
