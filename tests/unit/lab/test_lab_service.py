"""Delay of the next start after the end of a service, and reset of its count."""

from __future__ import annotations

from pathlib import Path

import pytest

from lab.service import MAX_RESTART_DELAY_SEC, STABLE_AFTER_SEC, Service, says


@pytest.fixture
def worker(tmp_path: Path) -> Service:
    return Service(
        name="worker",
        argv=["/bin/true"],
        ready=says("ready"),
        log=tmp_path / "worker.log",
        cwd=tmp_path,
        started=0.0,
        pid=1,
    )


def test_the_restart_delay_doubles_up_to_a_limit(worker: Service) -> None:
    delays = [worker.count_death("exit code 7", now=1.0) for _ in range(10)]

    assert delays == [
        0.5,
        1,
        2,
        4,
        8,
        16,
        32,
        MAX_RESTART_DELAY_SEC,
        MAX_RESTART_DELAY_SEC,
        MAX_RESTART_DELAY_SEC,
    ]


def test_the_restart_delay_does_not_overflow_after_many_deaths(worker: Service) -> None:
    worker.deaths = 100_000

    assert worker.count_death("exit code 7", now=1.0) == MAX_RESTART_DELAY_SEC


def test_a_service_fails_at_the_fourth_death_in_a_row(worker: Service) -> None:
    failing = []
    for _ in range(4):
        worker.count_death("exit code 7", now=1.0)
        failing.append(worker.failing)

    assert failing == [False, False, False, True]


def test_a_failing_service_recovers_when_it_stays_up(worker: Service) -> None:
    for _ in range(4):
        worker.count_death("exit code 7", now=1.0)
    worker.started = 10.0

    assert not worker.recover(now=10.0 + STABLE_AFTER_SEC - 1)
    assert worker.failing
    assert worker.recover(now=10.0 + STABLE_AFTER_SEC)
    assert not worker.failing
    assert not worker.recover(now=10.0 + STABLE_AFTER_SEC + 1)  # reported once


def test_a_service_that_waits_for_its_restart_does_not_recover(worker: Service) -> None:
    for _ in range(4):
        worker.count_death("exit code 7", now=1.0)
    worker.pid = 0

    assert not worker.recover(now=1000.0)


def test_a_death_after_a_stable_time_is_the_first_in_a_row(worker: Service) -> None:
    worker.count_death("exit code 7", now=1.0)
    worker.started = 2.0

    assert worker.count_death("exit code 7", now=2.0 + STABLE_AFTER_SEC) == 0.5
    assert worker.deaths == 1


def test_a_missing_log_has_no_last_lines(worker: Service) -> None:
    assert worker.tail() == ""
