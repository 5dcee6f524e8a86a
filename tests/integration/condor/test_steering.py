"""Sites of waiting landings and what DAGMans leave behind, on the real pool."""

from __future__ import annotations

import json
from typing import Any

from condor.amend import write_landing_sites
from condor.layout import GroupLayout, NodeLayout, Throttles
from condor.schedd import NO_SITE
from sandbox.elect_site import elected_site
from tests.integration.condor.conftest import Bench

NOWHERE = "T3_XX_Nowhere"


def test_a_waiting_landing_follows_its_sites_and_waits_without_one(bench: Bench) -> None:
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
    assert bench.schedd.place_landings(name, {"mg_000000": [NOWHERE], "mg_000001": bench.sites}) == 1
    assert landings() == [NOWHERE]
    assert bench.schedd.place_landings(name, {"mg_000000": [NOWHERE]}) == 0
    assert bench.schedd.place_landings(name, {"mg_000000": []}) == 1
    assert landings() == [NO_SITE]
    assert bench.schedd.place_landings(name, {"mg_000000": [NOWHERE, "T3_YY_Nowhere"]}) == 1
    assert landings() == [f"{NOWHERE},T3_YY_Nowhere"]
    # Everything at once, as if its DAGMans had died: no job of the batch may stay.
    assert bench.schedd.clear_batch(name, reason="the test is over") == 3
    bench.wait(lambda: bench.gone(name))
    assert bench.schedd.clear_batch(name, reason="again") == 0


def test_groups_that_start_after_a_change_of_sites_land_where_it_says(bench: Bench) -> None:
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
    told = directory / "mg_000001" / "group.dag.dagman.out"
    bench.wait(lambda: told.exists() and "DEFER" in told.read_text().upper())
    assert not [
        job for job in bench.jobs(name, "Iwd") if job["JobUniverse"] == 5 and "mg_000001" in job["Iwd"]
    ]

    write_landing_sites(directory, {"mg_000001": [second], "mg_000002": [third]})
    assert bench.finish(name).succeeded
    landed = [elected_site(directory / f"mg_{index:06d}") for index in range(3)]
    assert landed == [first, second, third]
