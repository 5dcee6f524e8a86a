"""The next DAG's schedd is found without waiting for one that is known to be silent."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from django.utils import timezone

from condor.types import ScheddLimits
from dags_app.models import Schedd
from dags_app.services import schedds
from tests.integration.factories import ago
from wms2_project.errors import ScheddUnreachable

pytestmark = pytest.mark.django_db
NAMES = ["quiet@pool", "lively@pool"]


@pytest.fixture(autouse=True)
def asked(monkeypatch: pytest.MonkeyPatch, settings: Any) -> list[str]:
    """The schedds that were asked for their limits; one never answers."""
    settings.SCHEDD_ASK_AGAIN_SEC = 600.0
    names: list[str] = []

    def limits(name: str) -> ScheddLimits:
        names.append(name)
        if name == "quiet@pool":
            raise ScheddUnreachable("no answer")
        return ScheddLimits(10, None, 0)

    monkeypatch.setattr(schedds, "schedd_names", lambda: NAMES)
    monkeypatch.setattr(schedds, "schedd", lambda name: SimpleNamespace(limits=lambda: limits(name)))
    return names


def test_a_schedd_that_did_not_answer_is_not_waited_for_by_the_next_dag(asked: list[str]) -> None:
    assert [schedds.choose_schedd() for _ in range(3)] == ["lively@pool"] * 3
    assert asked.count("quiet@pool") == 1


def test_a_silent_schedd_is_asked_again_after_a_while_and_its_answer_is_noted() -> None:
    Schedd.objects.create(name="lively@pool", silent_since=ago(hours=2), asked_at=ago(hours=1))
    assert schedds.choose_schedd() == "lively@pool"
    assert Schedd.objects.get(name="lively@pool").silent_since is None


def test_nothing_is_chosen_while_all_are_silent(asked: list[str]) -> None:
    for name in NAMES:
        Schedd.objects.create(name=name, silent_since=ago(hours=2), asked_at=timezone.now())
    with pytest.raises(ScheddUnreachable):
        schedds.choose_schedd()
    assert asked == []
