"""A site is banned for what it has to answer for: enough failures, of enough of the jobs there."""

from __future__ import annotations

import pytest

from dags_app.failures import FailedJob, RoundFailures
from sites_app.banning import decide_bans, decide_promotion, tally_sites

SITE, OTHER = "T2_US_Purdue", "T2_CH_CERN"


def failed(category: str, site: str = SITE) -> FailedJob:
    return FailedJob("mg_000000", "proc_000000", site, category, 1, "no")


def banned(*jobs: FailedJob, ran: int = 0, unreadable: int = 0) -> list[str]:
    found = RoundFailures(9, jobs=jobs, ran={SITE: ran, OTHER: 50})
    elsewhere = {SITE: [f"/store/data/{n}.root" for n in range(unreadable)]} if unreadable else {}
    tallies = tally_sites(found, read_elsewhere=elsewhere)
    return [one.site for one in decide_bans(tallies, min_failures=3, failure_ratio=0.5)]


@pytest.mark.parametrize(
    ("category", "failures", "ran", "expected"),
    [
        ("infrastructure", 3, 5, True),
        ("infrastructure", 3, 6, False),  # half is not more than half
        ("infrastructure", 2, 2, False),  # too few to tell
        ("infrastructure", 4, 7, True),
        ("permanent", 9, 9, False),
        ("transient", 9, 9, False),
        ("data", 9, 9, False),  # perhaps the files are bad
    ],
)
def test_only_enough_of_the_sites_own_failures_ban_it(
    category: str, failures: int, ran: int, expected: bool
) -> None:
    assert bool(banned(*[failed(category)] * failures, ran=ran)) is expected


def test_unreadable_files_count_once_they_were_read_elsewhere() -> None:
    assert banned(failed("infrastructure"), ran=4, unreadable=2) == [SITE]
    assert banned(failed("data"), failed("data"), failed("data"), ran=3) == []


def test_failures_without_a_site_ban_nobody() -> None:
    assert banned(*[failed("infrastructure", site="")] * 5) == []


@pytest.mark.parametrize(("requests", "expected"), [(0, False), (2, False), (3, True), (9, True)])
def test_requests_that_agree_make_it_a_ban_for_all(requests: int, expected: bool) -> None:
    assert decide_promotion(requests=requests, threshold=3) is expected
