"""B30: plan a round, and return `/ledger`, of a request with a million input files.

`python -m benchmarks.large_input plan|ledger` does one of them in a separate process, on the database of
DATABASE_URL, and prints seconds, CPU seconds and the growth of the peak memory in MB.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

from benchmarks.harness import Measured
from benchmarks.places import with_path
from benchmarks.run import Run

FILES, FEWER = 1_000_000, 100_000
MOST_SEC, MOST_MB, MOST_RATIO = 60.0, 500.0, 1.3  # of the seconds per file, many files to few


def plan_large_input(run: Run) -> Measured:
    """B30: the largest of time, memory and growth of the time per file, as fractions of their limits."""
    many, few = run.size(FILES, 5000), run.size(FEWER, 1000)
    samples: dict[str, tuple[float, ...]] = {}
    for files in (few, many):
        name = _fill(run, files)
        for work in ("plan", "ledger"):
            samples[f"{work} {files}"] = _measure(run, name, work)
    worst = [0.0]
    notes = []
    for work in ("plan", "ledger"):
        (seconds, cpu, grown), (_, cpu_few, _) = samples[f"{work} {many}"], samples[f"{work} {few}"]
        ratio = (cpu / many) / (cpu_few / few)
        worst += [seconds / MOST_SEC, grown / MOST_MB, ratio / MOST_RATIO]
        notes.append(f"{work}: {seconds:.1f} s ({cpu:.1f} s CPU), {grown:.0f} MB, {ratio:.2f}× per file")
    slowest = max(samples[f"{work} {many}"][0] for work in ("plan", "ledger"))
    hoped = slowest / MOST_SEC if max(worst) <= 1 else max(worst)
    return Measured(max(worst), samples, note=f"{many} files; {'; '.join(notes)}", hoped=hoped)


def _fill(run: Run, files: int) -> str:
    from benchmarks.database import databases, multiply
    from benchmarks.population import hurry
    from benchmarks.rows import first_request
    from dags_app.models import InputFile
    from sites_app.models import Site

    made = databases(run)
    name = made.copy(f"files_{files}")
    made.use(name)
    workflow = first_request().workflow
    workflow.splitting_params = {"files_per_job": 3}  # without a selection of runs
    workflow.save()
    Site.objects.create(name="T2_CH_CERN", storage_elements=["T2_CH_CERN"], total_slots=1000)
    file = InputFile.objects.create(
        workflow=workflow, lfn="/store/data/Run2031A/Muons/RAW/v1/", size_bytes=4 * 10**9, events=1000,
        adler32="0123abcd", locations=["T2_CH_CERN"],
    )  # fmt: skip
    first = "mod(n, 5000) * 9 + 1"
    changes = {
        "lfn": "t.lfn || lpad(n::text, 10, '0') || '.root'",
        "adler32": "lpad(to_hex(n), 8, '0')",
        "lumis": f"jsonb_build_array(jsonb_build_array(1 + n / 5000, {first}, {first} + 8))",
    }
    with made.connect(name) as server:
        hurry(server)
        multiply(server, file, over=f"generate_series(1, {files}) AS n", changes=changes)
        server.execute("VACUUM ANALYZE dags_app_inputfile")
    InputFile.objects.filter(pk=file.pk).delete()
    return name


def _measure(run: Run, name: str, work: str) -> tuple[float, float, float]:
    environment = os.environ | {"DATABASE_URL": with_path(run.places.database_server, name)}
    command = [sys.executable, "-m", "benchmarks.large_input", work]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0, done.stderr[-2000:]
    seconds, cpu, grown = map(float, done.stdout.split())
    return seconds, cpu, grown


def measure_here(work: str) -> tuple[float, float, float]:
    """Do the work in this process. Return seconds, CPU seconds and the growth of the peak memory in MB."""
    import django

    django.setup()
    from django.utils import timezone

    from dags_app.models import Workflow
    from dags_app.selectors import InputLedger, ledger_of
    from dags_app.services.production import decide_plan
    from sites_app.selectors import usable_sites

    workflow = Workflow.objects.get()
    pool = usable_sites(workflow=workflow, now=timezone.now())
    Path("/proc/self/clear_refs").write_text("5")  # reset the peak memory of the start
    before, began, cpu = _memory_kb("VmRSS"), time.monotonic(), time.process_time()
    if work == "plan":
        assert decide_plan(workflow=workflow, sites=pool).jobs
    else:
        found = ledger_of(workflow=workflow)
        assert isinstance(found, InputLedger)
        assert found.asked.files
    return time.monotonic() - began, time.process_time() - cpu, (_memory_kb("VmHWM") - before) / 1024


def _memory_kb(name: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(f"{name}:"))


if __name__ == "__main__":
    print(*measure_here(sys.argv[1]))
