"""The next DAG's schedd is found without waiting for one that is known to be silent."""

from __future__ import annotations

from typing import Any

import pytest
from django.utils import timezone

from condor.fake import FakePool, FakeSchedd
from dags_app.models import Schedd
from dags_app.services import schedds
from tests.integration.factories import ago
from wms2_project.errors import ScheddUnreachable

pytestmark = pytest.mark.django_db
NAMES = ["quiet@pool", "lively@pool"]


@pytest.fixture(autouse=True)
def quiet(fake_pool: FakePool, settings: Any) -> FakeSchedd:
    """Return the schedd, of two, that never answers."""
    settings.SCHEDDS, settings.SCHEDD_ASK_AGAIN_SEC = NAMES, 600.0
    fake_pool["quiet@pool"].silence()
    return fake_pool["quiet@pool"]


def test_a_schedd_that_did_not_answer_is_not_waited_for_by_the_next_dag(quiet: FakeSchedd) -> None:
    assert [schedds.choose_schedd() for _ in range(3)] == ["lively@pool"] * 3
    assert len(quiet.calls) == 1


def test_a_silent_schedd_is_queried_again_later_and_its_answer_is_recorded() -> None:
    Schedd.objects.create(name="lively@pool", silent_since=ago(hours=2), asked_at=ago(hours=1))
    assert schedds.choose_schedd() == "lively@pool"
    assert Schedd.objects.get(name="lively@pool").silent_since is None


def test_nothing_is_chosen_while_all_are_silent(fake_pool: FakePool) -> None:
    for name in NAMES:
        Schedd.objects.create(name=name, silent_since=ago(hours=2), asked_at=timezone.now())
    with pytest.raises(ScheddUnreachable):
        schedds.choose_schedd()
    assert [schedd.calls for schedd in fake_pool.values()] == [[]]
