"""A schedd that does not answer: bounded calls, no false conclusions, full recovery."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator

import pytest

from condor.schedd import Schedd
from condor.types import Presence
from tests.integration.condor.conftest import Bench
from tests.pool import schedd_pid
from wms2_project.errors import ScheddUnreachable

BOUND_SEC = 2.0


@pytest.fixture
def stopped(bench: Bench) -> Iterator[Callable[[], None]]:
    pid = schedd_pid()
    yield lambda: os.kill(pid, signal.SIGSTOP)
    os.kill(pid, signal.SIGCONT)


def test_every_call_ends_within_its_bound(bench: Bench, stopped: Callable[[], None]) -> None:
    written = bench.write(bench.layout({"proc_000001": "sleep"}))
    name = bench.submit(written)
    impatient = Schedd(timeout_sec=BOUND_SEC, submit_timeout_sec=BOUND_SEC)
    assert impatient.ping()
    stopped()

    calls: list[Callable[[], object]] = [
        lambda: impatient.query_dags(),
        lambda: impatient.finished_dag(name, 1),
        lambda: impatient.remove_dag(name, reason="x"),
        lambda: impatient.hold_dag(name, reason="x"),
        lambda: impatient.set_priority(name, 1),
        lambda: impatient.limits(),
        lambda: impatient.submit_dag(written.dag_file, "wms2-into-silence"),
    ]
    for call in calls:
        began = time.monotonic()
        with pytest.raises(ScheddUnreachable):
            call()
        assert time.monotonic() - began < BOUND_SEC + 15  # and the start of another child process
    assert impatient.find_dag(name) == (Presence.UNKNOWN, None)
    assert not impatient.ping()
    impatient.close()


def test_it_is_found_again_when_the_schedd_wakes_up(bench: Bench, stopped: Callable[[], None]) -> None:
    written = bench.write(bench.layout())
    name = bench.submit(written)
    impatient = Schedd(timeout_sec=BOUND_SEC, submit_timeout_sec=BOUND_SEC)
    stopped()
    assert impatient.find_dag(name)[0] is Presence.UNKNOWN
    with pytest.raises(ScheddUnreachable):
        impatient.submit_dag(written.dag_file, "wms2-lost-in-silence")

    os.kill(schedd_pid(), signal.SIGCONT)

    bench.wait(lambda: impatient.find_dag(name)[0] is Presence.FOUND)
    assert bench.finish(name).succeeded
    assert impatient.find_dag("wms2-lost-in-silence") == (Presence.ABSENT, None)
    impatient.close()
