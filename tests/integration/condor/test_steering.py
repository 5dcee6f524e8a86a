"""Sites of waiting landings and what DAGMans leave behind, on the real pool."""

from __future__ import annotations

import json

from condor.layout import GroupLayout, NodeLayout
from tests.integration.condor.conftest import Bench

NOWHERE = "T3_XX_Nowhere"


def test_a_waiting_landing_loses_a_site_and_keeps_its_last_one(bench: Bench) -> None:
    node = NodeLayout("proc_000000", memory_mb=64, cpus=1, disk_kb=1024, wall_minutes=10)
    group = GroupLayout(
        name="mg_000000", sites=[NOWHERE, "T3_YY_Nowhere"], nodes=[node], manifest=json.dumps({}).encode()
    )
    name = bench.submit(bench.write(bench.layout(groups=[group])))

    def landings() -> list[str]:
        jobs = bench.jobs(name, "DESIRED_Sites")
        return [str(job["DESIRED_Sites"]) for job in jobs if job["JobUniverse"] == 5]

    bench.wait(lambda: landings() == [f"{NOWHERE},T3_YY_Nowhere"])
    assert bench.schedd.working_groups([name]) == {(name, "mg_000000")}
    assert bench.schedd.limit_sites(name, [NOWHERE, *bench.sites]) == (1, 0)
    assert landings() == [NOWHERE]
    assert bench.schedd.limit_sites(name, bench.sites) == (0, 1)
    assert landings() == [NOWHERE]
    # Everything at once, as if its DAGMans had died: no job of the batch may stay.
    assert bench.schedd.clear_batch(name, reason="the test is over") == 3
    bench.wait(lambda: bench.gone(name))
    assert bench.schedd.clear_batch(name, reason="again") == 0
