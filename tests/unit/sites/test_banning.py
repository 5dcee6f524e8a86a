"""A site is banned for enough failures in number and fraction of its jobs."""

from __future__ import annotations

import pytest

from dags_app.failures.clusters import FailedJob, RoundFailures
from sites_app.banning import Agreement, decide_bans, decide_promotion, is_proved, tally_sites

SITE, OTHER = "T2_US_Purdue", "T2_CH_CERN"


def failed(category: str, site: str = SITE, source: str = "wrapper") -> FailedJob:
    return FailedJob("mg_000000", "proc_000000", site, category, 1, "no", source=source)


def banned(
    *jobs: FailedJob, ran: int = 0, unreadable: int = 0, source: str = "wrapper", elsewhere_ran: int = 50
) -> list[str]:
    found = RoundFailures(9, jobs=jobs, ran={SITE: ran, OTHER: elsewhere_ran})
    elsewhere = {SITE: {f"/store/data/{n}.root": source for n in range(unreadable)}} if unreadable else {}
    tallies = tally_sites(found, read_elsewhere=elsewhere)
    return [one.site for one in decide_bans(tallies, min_failures=3, failure_ratio=0.5)]


@pytest.mark.parametrize(
    ("category", "failures", "ran", "expected"),
    [
        ("infrastructure", 3, 5, True),
        ("infrastructure", 3, 6, False),  # half is not more than half
        ("infrastructure", 2, 2, False),  # too few
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


def test_failures_without_a_site_ban_no_site() -> None:
    assert banned(*[failed("infrastructure", site="")] * 5) == []


@pytest.mark.parametrize(
    ("here", "ran", "there", "ran_there", "expected"),
    [
        (3, 3, 0, 0, True),  # nothing ran elsewhere
        (3, 3, 0, 50, True),
        (3, 6, 0, 50, False),  # half is not more than half
        (2, 2, 0, 50, False),  # too few
        (4, 4, 24, 50, True),  # less than half as often elsewhere
        (4, 4, 25, 50, False),
        (9, 9, 50, 50, False),  # it fails everywhere
    ],
)
def test_claims_of_a_payload_exclude_a_site_that_is_worse_than_the_others(
    here: int, ran: int, there: int, ran_there: int, expected: bool
) -> None:
    claims = [failed("infrastructure", source="payload")] * here
    claims += [failed("infrastructure", OTHER, "payload")] * there
    assert (SITE in banned(*claims, ran=ran, elsewhere_ran=ran_there)) is expected


def test_claims_at_other_sites_do_not_excuse_proved_failures() -> None:
    jobs = [failed("infrastructure")] * 3 + [failed("infrastructure", OTHER, "payload")] * 50
    assert SITE in banned(*jobs, ran=3)


@pytest.mark.parametrize(
    ("record", "proved"),
    [
        ({"infrastructure": 3, "unreadable_files": 0, "claimed": 0}, True),
        ({"infrastructure": 1, "unreadable_files": 2, "claimed": 0}, True),
        ({"infrastructure": 2, "unreadable_files": 0, "claimed": 9}, False),
        ({"infrastructure": 9, "unreadable_files": 0}, False),  # older record without a source
        ({}, False),
    ],
)
def test_a_ban_needs_evidence_that_no_payload_can_produce(record: dict[str, int], proved: bool) -> None:
    data = {"site": SITE, "jobs": 5, **record} if record else record
    assert is_proved(data, min_failures=3, failure_ratio=0.5) is proved


@pytest.mark.parametrize(
    ("requests", "proved", "requestors", "expected"),
    [
        (0, 0, 0, False),
        (2, 2, 2, False),
        (3, 3, 1, True),  # one person, but no payload can make it
        (3, 2, 1, False),
        (9, 0, 2, False),
        (9, 2, 2, False),
        (3, 0, 3, True),
    ],
)
def test_proof_or_different_people_make_it_a_ban_for_all(
    requests: int, proved: int, requestors: int, expected: bool
) -> None:
    agreed = Agreement(requests=requests, proved=proved, requestors=requestors)
    assert decide_promotion(agreed, threshold=3, requestors=3) is expected


@pytest.mark.parametrize(
    ("agreed", "succeeded", "expected"),
    [
        (Agreement(3, 3, 1), 2, True),
        (Agreement(3, 3, 1), 3, False),
        (Agreement(20, 0, 3), 2, True),
        (Agreement(20, 0, 3), 3, False),  # eighteen of them are of one person, who counts once
    ],
)
def test_requests_that_succeeded_count_for_the_site(
    agreed: Agreement, succeeded: int, expected: bool
) -> None:
    decided = decide_promotion(agreed, threshold=3, requestors=3, succeeded=succeeded, failure_ratio=0.5)
    assert decided is expected
