"""The slow poll of Rucio announces closed datasets that no message announced."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.core.checks import run_checks

from chains_app.intake.polling import poll_datasets, poll_on_schedule
from chains_app.intake.status import intake_parts
from chains_app.intake.taking import take_messages
from chains_app.models import Announcement
from chains_app.services.announcing import announce
from wms2_project.checks import STARTUP
from wms2_project.errors import ServiceUnavailable

pytestmark = pytest.mark.django_db
NOW = datetime(2031, 5, 1, tzinfo=UTC)
FIRST, SECOND = "/Muons/Run2031A-v1/RAW", "/Muons/Run2031B-v1/RAW"


class FakeRucio:
    """Rucio with closed datasets by pattern, or an error."""

    def __init__(self) -> None:
        self.closed: dict[str, list[str]] = {}
        self.error: Exception | None = None
        self.asked: list[tuple[str, datetime]] = []

    def closed_datasets(self, pattern: str, *, since: datetime) -> list[str]:
        self.asked.append((pattern, since))
        if self.error:
            raise self.error
        return self.closed.get(pattern, [])


@pytest.fixture
def rucio(adapt: Any, settings: Any) -> FakeRucio:
    made = FakeRucio()
    adapt(rucio=made)
    settings.INTAKE_POLL_NAMES, settings.INTAKE_POLL_DAYS = ["/Muons/*/RAW"], 2.0
    made.closed["/Muons/*/RAW"] = [FIRST, SECOND]
    return made


def uids() -> list[str]:
    return sorted(Announcement.objects.values_list("uid", flat=True))


def test_closed_datasets_are_announced_once(rucio: FakeRucio) -> None:
    assert (poll_datasets(now=NOW), poll_datasets(now=NOW)) == (2, 0)

    assert uids() == [f"cms:{FIRST}", f"cms:{SECOND}"]
    assert rucio.asked[0] == ("/Muons/*/RAW", NOW - timedelta(days=2))


@pytest.mark.usefixtures("rucio")
def test_only_datasets_without_a_message_are_announced() -> None:
    event = f'{{"event_type": "close", "payload": {{"scope": "cms", "name": "{FIRST}"}}}}'
    announce(uid="by hand", name=SECOND, actor="user:ana")

    take_messages([event.encode()], source="stomp")
    assert poll_datasets(now=NOW) == 0
    take_messages([event.encode()], source="stomp")

    assert uids() == ["by hand", f"cms:{FIRST}"]


def test_overlapping_patterns_announce_once_and_names_outside_the_grammar_are_ignored(
    rucio: FakeRucio, settings: Any
) -> None:
    settings.INTAKE_POLL_NAMES = ["/Muons/*/RAW", "/*"]
    rucio.closed["/*"] = [FIRST, "/user.data"]

    assert poll_datasets(now=NOW) == 3
    assert poll_datasets(now=NOW) == 0

    assert Announcement.objects.get(status="dead_letter").body == "/user.data"


def test_without_names_rucio_is_not_called(rucio: FakeRucio, settings: Any) -> None:
    settings.INTAKE_POLL_NAMES = []

    poll_on_schedule(now=NOW)

    assert rucio.asked == []
    assert "intake.poll" not in {part.name for part in intake_parts()}


def test_readiness_has_the_error_until_rucio_answers_again(rucio: FakeRucio) -> None:
    rucio.error = ServiceUnavailable("Rucio is away")
    poll_on_schedule(now=NOW)
    (lost,) = [part for part in intake_parts() if part.name == "intake.poll"]
    rucio.error = None
    poll_on_schedule(now=NOW)
    (back,) = [part for part in intake_parts() if part.name == "intake.poll"]

    assert (lost.works, lost.reason, back.works) == (False, "waiting for Rucio", True)
    assert "Rucio is away" in lost.detail


@pytest.mark.parametrize(("name", "found"), [("/*/Run2031*/RAW", []), ("Muons", ["wms2.E042"])])
def test_pattern_must_be_of_dataset_names(settings: Any, name: str, found: list[str]) -> None:
    settings.INTAKE_POLL_NAMES = [name]

    assert [one.id for one in run_checks(tags=[STARTUP]) if one.id == "wms2.E042"] == found
