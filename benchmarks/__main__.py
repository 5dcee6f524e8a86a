"""`python -m benchmarks [B1 B3 …] [--json PATH] [--quick]`: measure, print the table, write the JSON record.

The exit code is 1 if a value is worse than its bar, or worse than the committed record beyond noise, or if
a benchmark failed; 2 for a wrong command. `python -m benchmarks years` fills a database with years of
requests instead, see `benchmarks.years`.
"""

from __future__ import annotations

import argparse
import logging
import os
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack
from datetime import UTC, datetime
from importlib import import_module

import django

from benchmarks.bars import BARS, Bar
from benchmarks.comparison import Record, compare
from benchmarks.harness import Result, Verdict, judge
from benchmarks.places import is_empty, record_path, submit_root, take_places
from benchmarks.report import Conditions, print_table, write_record
from benchmarks.run import NotRun, Run

logger = logging.getLogger("benchmarks")
# In this order: benchmarks that need an idle disk first, those that need the largest database last.
RUNNERS = {
    "B29": "latency:announce_one",
    "B12": "submission:queue_one",
    "B13": "submission:queue_hundred",
    "B15": "recovery:resume_killed",
    "B14": "recovery:see_groups",
    "B3": "dagfiles:write_large_dag",
    "B1": "planning:split_and_group",
    "B2": "peer:split_beside_wmcore",
    "B4": "dagfiles:read_large_status",
    "B16": "memory:memory_of_a_million",
    "B5": "watching:watch_all",
    "B6": "claims:claim_batches",
    "B7": "dispatch:dispatch_due",
    "B8": "ledger:assign_files",
    "B30": "large_input:plan_large_input",
    "B9": "pages:first_page",
    "B10": "pages:deep_page",
    "B11": "pages:console_list",
    "B17": "clients:many_clients",
    "B19": "chains:sweep_chains",
    "B20": "chains:start_next_steps",
    "B21": "chains:match_and_wire",
    "B18": "intake:take_announcements",
    "B31": "jobs:merge_files",
    "B33": "jobs:wrap_a_job",
    "B22": "lending:lend_to_many",
    "B23": "runner_calls:call_as_jobs",
    "B25": "lending:lend_again",
    "B24": "lending:lend_among_many",
    "B32": "storage:move_small_files",
    "B28": "startup:start_client",
    "B26": "streams:keep_pages_live",
    "B27": "request_page:open_request_page",
}
FAILURES = (Verdict.MISSED, Verdict.SLOWER, Verdict.FAILED)
BY_NAME_ONLY = {"B13": "takes minutes and fills the queue: name it to run it"}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the named benchmarks, or all. Return the exit code."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    if words[:1] == ["years"]:
        return int(import_module("benchmarks.years").main(words[1:]))
    given = parse(words)
    places = take_places(os.environ)
    run = Run(places=places, quick=given.quick, redis_was_empty=is_empty(places.redis))
    conditions = Conditions(
        quick=given.quick,
        started_at=datetime.now(UTC),
        load_before=os.getloadavg(),
        versions=run.versions,
    )
    with ExitStack() as stack:
        stack.enter_context(submit_root(os.environ))
        stack.callback(run.close)
        django.setup()
        wanted = given.ids or list(BARS)
        measured = {id_: measure(BARS[id_], run, named=bool(given.ids)) for id_ in in_order(wanted)}
    results = compare([measured[id_] for id_ in BARS if id_ in measured], Record.read())
    print_table(results, conditions)
    path = record_path(given.json, os.environ)
    write_record(path, results, conditions)
    print(f"recorded in {path}")
    return exit_code(results)


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Parse the command line. An unknown benchmark is refused with the list of known ones."""
    parser = argparse.ArgumentParser(prog="benchmarks", description="Benchmarks of speed and memory.")
    parser.add_argument("ids", nargs="*", metavar="ID", help="B1, B2, …; all if none is named")
    parser.add_argument(
        "--json", metavar="PATH", help="file of the JSON record (benchmarks.json in the state directory)"
    )
    parser.add_argument("--quick", action="store_true", help="a smoke test: small sizes, no verdict")
    given = parser.parse_args(arguments)
    given.ids = [id_.upper() for id_ in given.ids]
    unknown = [id_ for id_ in given.ids if id_ not in BARS]
    if unknown:
        parser.error(f"there is no {', '.join(unknown)}: choose from {', '.join(BARS)}")
    return given


def in_order(ids: Sequence[str]) -> list[str]:
    """Return each bar once, in the order of the runners; those without a runner come last."""
    order = [*RUNNERS, *(id_ for id_ in BARS if id_ not in RUNNERS)]
    return [id_ for id_ in order if id_ in ids]


def measure(bar: Bar, run: Run, *, named: bool) -> Result:
    """Run one benchmark. Any error becomes its result, so that the next benchmarks run."""
    if bar.id not in RUNNERS:
        return Result(bar, Verdict.NOT_RUN, reason="no benchmark measures it yet")
    if bar.id in BY_NAME_ONLY and not named:
        return Result(bar, Verdict.NOT_RUN, reason=BY_NAME_ONLY[bar.id])
    print(f"{bar.id} {bar.what} … ", end="", file=sys.stderr, flush=True)
    load, began = os.getloadavg(), time.monotonic()
    module, _, name = RUNNERS[bar.id].partition(":")
    try:
        measured = getattr(import_module(f"benchmarks.{module}"), name)(run)
        result = judge(bar, measured, quick=run.quick, load=load, seconds=time.monotonic() - began)
        said = bar.shown(measured.value)
    except NotRun as reason:
        result = Result(bar, Verdict.NOT_RUN, reason=str(reason), load=load)
        said = f"not run: {reason}"
    except Exception as error:
        logger.exception("%s broke", bar.id)
        message = f"{type(error).__name__}: {error}".splitlines()[0][:200]
        result = Result(bar, Verdict.FAILED, reason=message, load=load, seconds=time.monotonic() - began)
        said = message
    print(f"{said} ({time.monotonic() - began:.0f} s)", file=sys.stderr, flush=True)
    return result


def exit_code(results: Sequence[Result]) -> int:
    """Return 1 if a bar was missed, a result is slower than recorded, or a benchmark failed."""
    return int(any(result.verdict in FAILURES for result in results))


if __name__ == "__main__":
    sys.exit(main())
