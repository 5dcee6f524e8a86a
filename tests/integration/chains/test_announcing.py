"""Announcements: stored once, matched with actual templates, or kept as dead letters."""

from __future__ import annotations

from typing import Any

import pytest

from chains_app.models import Announcement, Chain
from chains_app.services import announcing
from chains_app.services.announcing import announce, build_announcement, match_pending, store_announcements
from chains_app.states import AnnouncementStatus, TemplateStatus
from tests.integration.factories import make_template
from wms2_project.errors import InvalidInput
from wms2_project.models import AuditEvent

pytestmark = pytest.mark.django_db
RAW = "/Muons/Run2031A-v1/RAW"
ACTOR = "user:ana"


def test_every_matching_template_starts_its_own_chain() -> None:
    make_template("first")
    make_template("second")
    make_template("other", mask="^/Electrons/")

    row = announce(uid="1", name=RAW, actor=ACTOR)

    assert row.status == AnnouncementStatus.MATCHED
    assert sorted(Chain.objects.values_list("template__name", flat=True)) == ["first", "second"]


def test_equal_uids_are_one_announcement() -> None:
    make_template("first")
    first = announce(uid="1", name=RAW, actor=ACTOR)

    assert announce(uid="1", name=RAW, actor=ACTOR).pk == first.pk
    assert Chain.objects.count() == 1
    assert AuditEvent.objects.filter(action="announce", target=f"announcement {first.pk}").count() == 1


@pytest.mark.parametrize("status", [TemplateStatus.ARCHIVED, TemplateStatus.LOADED])
def test_only_actual_templates_start_chains(status: TemplateStatus) -> None:
    make_template("first", status=status)

    row = announce(uid="1", name=RAW, actor=ACTOR)

    assert (row.status, row.reason) == ("dead_letter", "No actual template matches the name")


def test_outputs_of_two_templates_for_one_dataset_have_different_names() -> None:
    make_template("first")
    make_template("second")

    announce(uid="1", name=RAW, actor=ACTOR)

    names = [dataset.dataset_name for chain in Chain.objects.all() for dataset in chain.datasets.all()]
    assert len(set(names)) == 5, "the input, two outputs and two log datasets"


def test_product_of_a_chain_starts_other_templates_and_never_one_of_its_ancestry() -> None:
    make_template("first")
    announce(uid="1", name=RAW, actor=ACTOR)
    product = Chain.objects.get().datasets.get(role="final").dataset_name
    make_template("second")

    announce(uid="2", name=product, actor=ACTOR)

    chain = Chain.objects.get(announcement__uid="2")
    assert chain.template.name == "second"
    last = chain.datasets.get(role="final").dataset_name
    row = announce(uid="3", name=last, actor=ACTOR)
    assert row.status == AnnouncementStatus.DEAD_LETTER
    assert "ancestry" in row.reason
    named = announce(uid="4", name=last, template="first", actor=ACTOR)
    assert (named.status, Chain.objects.count()) == (AnnouncementStatus.DEAD_LETTER, 2)
    assert "product of first itself" in named.reason


def test_unknown_template_and_wrong_parameters_are_dead_letters() -> None:
    make_template("first")

    unknown = announce(uid="1", name=RAW, template="unknown", actor=ACTOR)
    wrong = announce(uid="2", name=RAW, template="first", parameters={"spin": 1}, actor=ACTOR)

    assert unknown.reason == "There is no actual template named unknown"
    assert "there is no input spin" in wrong.reason
    assert Chain.objects.count() == 0


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"name": "no dataset"}, "name"),
        ({"uid": ""}, "uid"),
        ({"priority": "high"}, "priority"),
        ({"priority": True}, "priority"),
        ({"parameters": [1]}, "parameters"),
        ({"callback_url": "https://unknown.example.org/x"}, "callback_url"),
    ],
)
def test_illegal_values_are_refused_and_nothing_is_stored(changes: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        announce(**({"uid": "1", "name": RAW, "actor": ACTOR} | changes))

    assert field in refused.value.fields
    assert Announcement.objects.count() == 0


def test_stored_announcement_without_a_match_is_matched_by_the_sweep() -> None:
    make_template("first")
    store_announcements([build_announcement(uid="1", name=RAW, actor=ACTOR)])

    assert match_pending() == 1
    assert match_pending() == 0
    assert Chain.objects.count() == 1


def test_many_pending_announcements_are_matched_at_once_and_a_bad_one_stops_no_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    make_template("first", mask="^/Muons/Era1[0-9]-v1/RAW$")
    monkeypatch.setattr(announcing, "MATCH_BATCH", 7)
    rows = [build_announcement(uid=str(n), name=f"/Muons/Era{n}-v1/RAW", actor=ACTOR) for n in range(30)]
    store_announcements([*rows, build_announcement(uid="named", name=RAW, template="unknown", actor=ACTOR)])
    match_announcement = announcing.match_announcement

    def fails_once(*, uid: str) -> Announcement:
        if uid == "12":
            raise RuntimeError("a bug")
        return match_announcement(uid=uid)

    monkeypatch.setattr(announcing, "match_announcement", fails_once)
    assert match_pending() == 30
    assert [row.uid for row in Announcement.objects.filter(status="pending")] == ["12"]
    monkeypatch.undo()
    assert match_pending() == 1

    assert Chain.objects.count() == 10
    dead = Announcement.objects.filter(status="dead_letter", reason="No actual template matches the name")
    assert dead.count() == 20
    assert Announcement.objects.get(uid="named").reason == "There is no actual template named unknown"
