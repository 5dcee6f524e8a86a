"""HTCondor's analysis of a job that cannot start."""

from __future__ import annotations

from dataclasses import replace

from tests.pool_dags import Bench


def test_an_idle_job_is_explained_by_htcondor_itself(bench: Bench) -> None:
    layout = bench.layout()
    nowhere = [replace(group, sites=("T2_XX_Nowhere",)) for group in layout.groups]
    name = bench.submit(bench.write(bench.layout(groups=nowhere)))
    bench.wait(lambda: any(job["JobUniverse"] == 5 for job in bench.jobs(name)))

    result = bench.schedd.explain_idle(name)

    assert result is not None
    assert result.counts["slots"] > 0
    assert result.counts["able"] == 0
    assert result.counts["rejecting_job"] == result.counts["slots"]  # START honours DESIRED_Sites
    assert result.conditions
