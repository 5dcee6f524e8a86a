"""`python -m lab.simulator` runs fault schedules on the PostgreSQL that the environment names."""

from __future__ import annotations

import argparse
import importlib
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from lab.simulator import database
from lab.simulator.campaign import memory_directory, run_seeds, shrink, workers
from lab.simulator.environment import configure

MUTATIONS = "tests.faults.mutations"
SHRUNK = 5  # failing seeds that are minimised


def main(arguments: list[str]) -> int:
    options = parse(arguments)
    migrate(database.make_template())
    database.add_clock()
    try:
        if options.dags or options.study:
            return run_load(options)
        return run_mutations() if options.mutations else run_faults(options)
    finally:
        database.drop(database.TEMPLATE)


def parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="./wms2 simulate", description="Simulate WMS2 in virtual time.")
    parser.add_argument("--faults", action="store_true", help="run fault schedules")
    parser.add_argument("--mutations", action="store_true", help="put known defects back and see them caught")
    parser.add_argument("--dags", type=int, help="run so many requests at once and report")
    parser.add_argument("--nodes", type=int, default=10_000, help="of each DAG (default 10000)")
    parser.add_argument("--days", type=float, default=30.0, help="virtual days (default 30)")
    parser.add_argument("--report", type=Path, help="write the report of --dags there: .html and .json")
    parser.add_argument(
        "--study", choices=("tail", "learning"), help="compare two loads with and without a policy"
    )
    parser.add_argument("--seeds", type=int, default=100, help="how many seeds (default 100)")
    parser.add_argument("--first", type=int, default=0, help="the first seed (default 0)")
    parser.add_argument("--seed", type=int, help="replay this seed only, and make it smaller if it fails")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1, help="worker processes")
    parser.add_argument("--json", type=Path, help="write the summary to this file")
    options = parser.parse_args(arguments)
    if not (options.faults or options.mutations or options.dags or options.study):
        parser.error("choose what to simulate: --faults, --mutations, --study or --dags")
    return options


def migrate(url: str) -> None:
    """Migrate the template in a separate process, which connects to no other database."""
    command = (
        "import sys; from pathlib import Path; from lab.simulator.environment import configure;"
        "configure(database_url=sys.argv[1], directory=Path('/nonexistent'));"
        "from django.core.management import call_command; call_command('migrate', verbosity=0)"
    )
    subprocess.run([sys.executable, "-P", "-c", command, url], check=True)


def run_faults(options: argparse.Namespace) -> int:
    """Run the seeds, print failing ones with the faults they need, and return the exit code."""
    seeds = (
        [options.seed] if options.seed is not None else range(options.first, options.first + options.seeds)
    )
    with workers(min(options.workers, len(seeds)), template=database.TEMPLATE) as made:
        summary = run_seeds(seeds, made)
        for verdict in summary.failed[:SHRUNK]:
            smaller = shrink(verdict, made[0])
            print(f"FAILED {smaller['schedule']}")
            print("".join(f"  {problem}\n" for problem in smaller["problems"]), end="")
            print(f"  replay: ./wms2 simulate --faults --seed {verdict['seed']}")
    document = summary.as_json()
    if options.json:
        options.json.write_text(json.dumps(document, indent=1) + "\n")
    print(json.dumps({name: value for name, value in document.items() if name != "failed"}))
    print(f"{summary.seeds} seeds, {len(summary.failed)} failed, {summary.seconds:.0f} s")
    return int(bool(summary.failed))


def run_load(options: argparse.Namespace) -> int:
    """Run many requests at once, write the report, and return 1 if an invariant does not hold."""
    name, place = f"{database.TEMPLATE}_{os.getpid()}_load", memory_directory()
    with tempfile.TemporaryDirectory(prefix="wms2-simulation-", dir=place) as directory:
        configure(database_url=database.clone(database.TEMPLATE, name), directory=Path(directory))
        from lab.simulator.month import Load, run_month
        from lab.simulator.report import render_report
        from lab.simulator.studies import run_study

        def tell(line: str) -> None:
            print(line, flush=True)

        if options.study:
            report = run_study(options.study, Path(directory), seed=options.seed or 0, tell=tell)
        else:
            load = Load(options.dags, options.nodes, options.days, seed=options.seed or 0)
            report = run_month(load, Path(directory), tell=tell)
        from django.db import connection

        connection.close()
        database.drop(name)
    if options.report:
        options.report.with_suffix(".json").write_text(json.dumps(report, indent=1) + "\n")
        if "samples" in report:
            options.report.with_suffix(".html").write_text(render_report(report))
    print(json.dumps({key: value for key, value in report.items() if key not in ("samples", "gantt")}))
    return int(bool(report["problems"]) or not report.get("reached", True))


def run_mutations() -> int:
    """Reintroduce every known defect, one at a time.

    Print what detected it; return 1 if one was not detected.
    """
    known = importlib.import_module(MUTATIONS).MUTATIONS
    missed = 0
    with workers(1, template=database.TEMPLATE) as (worker,):
        for name, one in known.items():
            patch, given = one.patch, {"faults": one.faults, "changes": one.changes}
            without = worker.run(one.seed, **given)["problems"]
            problems = [] if without else worker.run(one.seed, **given, patch=patch)["problems"]
            missed += not problems
            found = f"the schedule fails without it: {without[0]}" if without else "MISSED"
            print(f"{name:28} {one.why}\n{'':28} {problems[0][-200:] if problems else found}", flush=True)
    print(f"{len(known)} mutations, {missed} missed")
    return int(bool(missed))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
