"""Distances of storages, and the order in which a site is lent files."""

from __future__ import annotations

import pytest

from dags_app.pull.distances import ANYWHERE, Geography, Source, country_of, rank_sources

CERN, MEYRIN, FNAL = "T2_CH_CERN", "T3_CH_Meyrin", "T1_US_FNAL"
READERS = {
    "T2_CH_CERN": frozenset({CERN, MEYRIN}),
    "T2_CH_CSCS": frozenset({"T2_CH_CSCS"}),
    "T1_US_FNAL_Disk": frozenset({FNAL}),
}


@pytest.mark.parametrize(
    ("site", "storage", "distance"),
    [
        (CERN, "T2_CH_CERN", 0),
        (MEYRIN, "T2_CH_CERN", 0),
        (CERN, "T2_CH_CSCS", 50),
        (CERN, "T1_US_FNAL_Disk", 100),
        (CERN, "T1_US_FNAL_Tape", None),
        (FNAL, ANYWHERE, 0),
    ],
)
def test_default_distances(site: str, storage: str, distance: int | None) -> None:
    assert Geography(READERS).distance(site, storage) == distance


def test_an_edited_distance_outranks_the_default() -> None:
    edited = {(CERN, "T1_US_FNAL_Disk"): 20, (CERN, "T2_CH_CERN"): 90}
    geography = Geography(READERS, edited)
    assert geography.distance(CERN, "T1_US_FNAL_Disk") == 20
    assert geography.distance(CERN, "T2_CH_CERN") == 90
    assert geography.distance(MEYRIN, "T1_US_FNAL_Disk") == 100


def test_sets_are_ranked_by_their_nearest_storage_within_the_distance() -> None:
    sets = [
        (1, ["T1_US_FNAL_Disk"]),
        (2, ["T1_US_FNAL_Disk", "T2_CH_CSCS"]),
        (3, ["T1_US_FNAL_Disk", "T2_CH_CERN"]),
        (4, []),
    ]
    near = rank_sources(site=CERN, sets=sets, geography=Geography(READERS), max_distance=50)
    assert near == [Source(3, 0, ("T2_CH_CERN",)), Source(2, 50, ("T2_CH_CSCS",))]
    everything = rank_sources(site=CERN, sets=sets, geography=Geography(READERS), max_distance=100)
    assert [source.set_id for source in everything] == [3, 2, 1]
    assert everything[0].storages == ("T2_CH_CERN", "T1_US_FNAL_Disk")


def test_the_country_is_part_of_a_site_name() -> None:
    assert [country_of(name) for name in (CERN, "T1_US_FNAL_Disk", "nowhere")] == ["CH", "US", ""]
