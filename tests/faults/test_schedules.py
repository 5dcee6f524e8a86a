"""Random fault schedules in virtual time: crashes, messages, services, operators, clocks."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
from django.db import connection

from lab.simulator import database
from lab.simulator.campaign import Worker, run_seeds, shrink, workers
from tests.faults.mutations import MUTATIONS

pytestmark = pytest.mark.django_db(transaction=True)
SEEDS = range(25)
WORKERS = 2


@pytest.fixture(scope="module")
def simulators(django_db_setup: None, django_db_blocker: pytest.FixtureRequest) -> Iterator[list[Worker]]:
    """Yield worker processes with clones of the test database."""
    migrated = str(connection.settings_dict["NAME"])
    connection.close()  # only a database without sessions can be cloned
    template = f"{database.TEMPLATE}_{os.getpid()}"
    database.clone(migrated, template)
    database.add_clock(template)
    with workers(WORKERS, template=template) as made:
        yield made
    database.drop(template)


def test_no_schedule_of_faults_breaks_an_invariant(simulators: list[Worker]) -> None:
    summary = run_seeds(SEEDS, simulators)

    smaller = [shrink(verdict, simulators[0]) for verdict in summary.failed[:3]]
    problems = {one["schedule"]: one["problems"] for one in smaller}
    assert not problems, "replay with ./wms2 simulate --faults --seed N"
    assert summary.effects > 20 * len(SEEDS)
    assert len(summary.hit) >= 15, "most kinds of faults are hit"


def test_a_seed_replays_identically(simulators: list[Worker]) -> None:
    seed = 17
    first, second = (simulator.run(seed) for simulator in simulators)

    assert first == second
    assert first["hit"]


# The others take longer: ./wms2 simulate --mutations
QUICK = (
    "submitted_before_recorded", "site_of_another_group", "decisions_are_overwritten",
    "no_lock_of_submission", "source_is_released_first", "moves_are_not_audited",
)  # fmt: skip


@pytest.mark.parametrize("name", QUICK)
def test_a_known_defect_is_caught(simulators: list[Worker], name: str) -> None:
    known = MUTATIONS[name]
    given = {"faults": known.faults, "changes": known.changes}

    verdict = simulators[0].run(known.seed, **given, patch=known.patch)

    assert verdict["problems"], known.why
