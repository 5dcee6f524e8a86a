"""HTCondor's own words about a job that cannot start."""

from __future__ import annotations

from dataclasses import replace

from tests.pool_dags import Bench


def test_an_idle_job_is_explained_by_htcondor_itself(bench: Bench) -> None:
    layout = bench.layout()
    nowhere = [replace(group, sites=("T2_XX_Nowhere",)) for group in layout.groups]
    name = bench.submit(bench.write(bench.layout(groups=nowhere)))
    bench.wait(lambda: any(job["JobUniverse"] == 5 for job in bench.jobs(name)))

    told = bench.schedd.explain_idle(name)

    assert told is not None
    assert told.counts["slots"] > 0
    assert told.counts["able"] == 0
    assert told.counts["rejecting_job"] == told.counts["slots"]  # START honours DESIRED_Sites
    assert told.conditions
