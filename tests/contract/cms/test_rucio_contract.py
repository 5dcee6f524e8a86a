"""Behaviour of Rucio that WMS2 relies on: the same tests pass against the lab's server and a real one."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from rucio_peers import Block, RucioPeer

from cms.rucio import MAX_NAMES_PER_CALL, RucioClient
from cms.rucio_session import MemoryTokenClient, connect
from cms.types import Destination, FileCounts, ReplicaVerdict, RuleState
from wms2_project.errors import NotFound, ServiceRejected

ACTIVITY = "Production Output"
PASSES = 12  # of the daemons; Rucio repeats a failed transfer before it gives the rule up


def plain_client(peer: RucioPeer) -> MemoryTokenClient:
    """Return Rucio's own client, to look at what the adapter left behind."""
    return connect(peer.config)


def test_block_is_closed_in_its_container_with_its_files(peer: RucioPeer, registered: Block) -> None:
    client = plain_client(peer)

    assert client.get_did("cms", registered.name)["open"] is False
    assert [row["name"] for row in client.list_content("cms", registered.dataset)] == [registered.name]
    assert sorted(row["name"] for row in client.list_files("cms", registered.name)) == registered.lfns


def test_files_and_bytes_of_a_block_are_counted(rucio: RucioClient, registered: Block) -> None:
    assert rucio.block_counts(registered.name) == FileCounts(files=3, bytes=3003)
    assert rucio.block_counts(f"{registered.dataset}#unknown") is None


def test_closed_datasets_are_found_by_name_and_time(
    rucio: RucioClient, peer: RucioPeer, registered: Block
) -> None:
    primary, hour = registered.dataset.split("/")[1], timedelta(hours=1)
    now, open_one = datetime.now(UTC), f"/{primary}/Lab-Open-v1/AOD"
    rucio.ensure_container(open_one)
    assert rucio.closed_datasets(f"/{primary}/*", since=now - hour) == [], "its blocks are closed, it is not"

    plain_client(peer).close("cms", registered.dataset)

    assert rucio.closed_datasets(f"/{primary}/*/AOD", since=now - hour) == [registered.dataset]
    assert rucio.closed_datasets(registered.dataset, since=now - hour) == [registered.dataset]
    assert rucio.closed_datasets(f"/{primary}/*/RAW", since=now - hour) == []
    assert rucio.closed_datasets(f"/{primary}/*", since=now + hour) == []


def test_a_storage_reports_its_usage_or_none(rucio: RucioClient, peer: RucioPeer) -> None:
    assert rucio.used_fraction(peer.destination) is None
    plain_client(peer).set_rse_usage(peer.destination, "rucio", used=10, free=None)
    assert rucio.used_fraction(peer.destination) is None
    plain_client(peer).set_rse_usage(peer.destination, "storage", used=970, free=30)
    assert rucio.used_fraction(peer.destination) == 0.97
    assert rucio.used_fraction("T2_XX_Nowhere") is None


def test_unsupported_protocols_give_no_prefix(rucio: RucioClient, peer: RucioPeer) -> None:
    assert rucio.storage_prefixes(peer.destination) == ()
    assert rucio.storage_prefixes("T2_XX_Nowhere") == ()


def test_replicas_are_where_the_block_was_registered(
    rucio: RucioClient, peer: RucioPeer, registered: Block
) -> None:
    found = rucio.replicas([*registered.lfns, "/store/data/Lab/unknown/file.root"])

    assert found == {
        **dict.fromkeys(registered.lfns, (peer.source,)),
        "/store/data/Lab/unknown/file.root": (),
    }


def test_a_copy_declared_bad_is_no_replica_any_more(
    rucio: RucioClient, peer: RucioPeer, registered: Block
) -> None:
    first, *others = registered.lfns
    for _ in range(2):
        assert rucio.declare_replica(first, peer.source, ReplicaVerdict.BAD, reason="checksum differs")
    assert rucio.replicas(registered.lfns) == {first: (), **dict.fromkeys(others, (peer.source,))}


def test_a_suspicious_copy_stays_a_replica_and_is_listed(
    rucio: RucioClient, peer: RucioPeer, registered: Block
) -> None:
    lfn = registered.lfns[0]
    for _ in range(2):
        assert rucio.declare_replica(lfn, peer.source, ReplicaVerdict.SUSPICIOUS, reason="checksum differs")
    assert rucio.replicas([lfn]) == {lfn: (peer.source,)}
    listed = plain_client(peer).list_suspicious_replicas(rse_expression=peer.source)
    assert lfn in {row["name"] for rows in listed for row in rows}


@pytest.mark.parametrize("verdict", list(ReplicaVerdict))
def test_a_copy_that_is_not_there_is_not_declared(
    rucio: RucioClient, peer: RucioPeer, registered: Block, verdict: ReplicaVerdict
) -> None:
    lfn = registered.lfns[0]
    assert not rucio.declare_replica(lfn, peer.destination, verdict, reason="checksum differs")
    with pytest.raises(NotFound, match="T2_XX_Nowhere"):
        rucio.declare_replica(lfn, "T2_XX_Nowhere", ReplicaVerdict.BAD, reason="checksum differs")


def test_registering_a_block_again_changes_nothing(
    rucio: RucioClient, peer: RucioPeer, registered: Block
) -> None:
    rucio.ensure_container(registered.dataset)
    rucio.ensure_block(registered.name, registered.dataset, peer.source, registered.files)

    assert (
        sorted(row["name"] for row in plain_client(peer).list_files("cms", registered.name))
        == registered.lfns
    )


def test_half_registered_block_is_completed(rucio: RucioClient, peer: RucioPeer, block: Block) -> None:
    client = plain_client(peer)
    rucio.ensure_container(block.dataset)
    client.add_dataset("cms", block.name)
    first = {"scope": "cms", "name": block.lfns[0], "bytes": block.files[0].size_bytes, "adler32": "00000000"}
    client.attach_dids("cms", block.name, [first], rse=peer.source)

    rucio.ensure_block(block.name, block.dataset, peer.source, block.files)

    assert sorted(row["name"] for row in client.list_files("cms", block.name)) == block.lfns


def test_closed_block_without_our_files_is_refused(rucio: RucioClient, peer: RucioPeer, block: Block) -> None:
    rucio.ensure_container(block.dataset)
    rucio.ensure_block(block.name, block.dataset, peer.source, block.files[:2])

    with pytest.raises(ServiceRejected, match="closed"):
        rucio.ensure_block(block.name, block.dataset, peer.source, block.files)


def test_block_with_strange_files_is_not_adopted(
    rucio: RucioClient, peer: RucioPeer, registered: Block
) -> None:
    with pytest.raises(ServiceRejected, match="1 unknown files"):
        rucio.ensure_block(registered.name, registered.dataset, peer.source, registered.files[:2])


def test_file_name_that_holds_other_data_is_refused(
    rucio: RucioClient, peer: RucioPeer, registered: Block
) -> None:
    other = replace(registered.files[0], size_bytes=999)
    name = f"{registered.dataset}#other"

    with pytest.raises(ServiceRejected, match="mismatch"):
        rucio.ensure_block(name, registered.dataset, peer.source, [other])


def test_name_of_another_type_is_refused(rucio: RucioClient, peer: RucioPeer, block: Block) -> None:
    plain_client(peer).add_dataset("cms", block.dataset)

    with pytest.raises(ServiceRejected, match="as DATASET, it should be CONTAINER"):
        rucio.ensure_container(block.dataset)


def test_block_at_an_unknown_storage_is_not_found(rucio: RucioClient, block: Block) -> None:
    rucio.ensure_container(block.dataset)

    with pytest.raises(NotFound, match="T2_XX_Nowhere"):
        rucio.ensure_block(block.name, block.dataset, "T2_XX_Nowhere", block.files)


def test_rule_at_the_source_is_ok_at_once(rucio: RucioClient, peer: RucioPeer, registered: Block) -> None:
    rule_id = rucio.ensure_rule(registered.name, peer.source, activity=ACTIVITY)

    rule = rucio.rule(rule_id)
    assert rule is not None
    assert (rule.state, rule.locks_ok, rule.rse_expression) == (RuleState.OK, 3, peer.source)
    assert rule.expires_at is None


def test_same_rule_is_made_once(rucio: RucioClient, peer: RucioPeer, registered: Block) -> None:
    first = rucio.ensure_rule(registered.name, peer.destination, activity=ACTIVITY)

    assert rucio.ensure_rule(registered.name, peer.destination, activity=ACTIVITY) == first


def test_rules_of_one_block_at_two_places_are_two(
    rucio: RucioClient, peer: RucioPeer, registered: Block
) -> None:
    at_source = rucio.ensure_rule(registered.name, peer.source, activity=ACTIVITY)

    assert rucio.ensure_rule(registered.name, peer.destination, activity=ACTIVITY) != at_source


def test_rule_for_two_copies_is_separate_and_needs_every_file_twice(
    rucio: RucioClient, peer: RucioPeer, registered: Block
) -> None:
    both = f"{peer.source}|{peer.destination}"
    twice = rucio.ensure_rule(registered.name, both, activity=ACTIVITY, copies=2)

    assert rucio.ensure_rule(registered.name, both, activity=ACTIVITY, copies=2) == twice
    assert rucio.find_rule(registered.name, both, copies=2) == twice
    assert rucio.find_rule(registered.name, both) is None
    rule = rucio.rule(twice)
    assert rule is not None
    assert rule.locks_ok + rule.locks_replicating == 6
    assert rucio.ensure_rule(registered.name, both, activity=ACTIVITY) != twice


def test_deleted_rule_is_about_to_expire(rucio: RucioClient, peer: RucioPeer, registered: Block) -> None:
    rule_id = rucio.ensure_rule(registered.name, peer.source, activity=ACTIVITY)

    rucio.delete_rule(rule_id)
    rucio.delete_rule(rule_id)

    rule = rucio.rule(rule_id)
    assert rule is not None
    assert rule.expires_at is not None


def test_rule_of_another_account_is_not_deleted(
    rucio: RucioClient, peer: RucioPeer, registered: Block
) -> None:
    rule_id = rucio.ensure_rule(registered.name, peer.source, activity=ACTIVITY)
    rucio._config = replace(peer.config, account="another_account")  # logged in as before

    with pytest.raises(ServiceRejected, match=f"belongs to {peer.config.account}"):
        rucio.delete_rule(rule_id)

    rule = rucio.rule(rule_id)
    assert rule is not None
    assert (rule.account, rule.expires_at) == (peer.config.account, None)


def test_adopted_rule_that_was_deleted_protects_again(
    rucio: RucioClient, peer: RucioPeer, registered: Block
) -> None:
    rule_id = rucio.ensure_rule(registered.name, peer.source, activity=ACTIVITY)
    rucio.delete_rule(rule_id)

    assert rucio.ensure_rule(registered.name, peer.source, activity=ACTIVITY) == rule_id

    rule = rucio.rule(rule_id)
    assert rule is not None
    assert rule.expires_at is None


def test_rule_with_a_lifetime_expires(rucio: RucioClient, peer: RucioPeer, registered: Block) -> None:
    rule_id = rucio.ensure_rule(registered.name, peer.source, activity=ACTIVITY, lifetime_sec=600)

    rule = rucio.rule(rule_id)
    assert rule is not None
    assert rule.expires_at is not None


def test_rule_can_be_boosted(rucio: RucioClient, peer: RucioPeer, registered: Block) -> None:
    rule_id = rucio.ensure_rule(registered.name, peer.destination, activity=ACTIVITY)

    rucio.boost_rule(rule_id)

    rule = rucio.rule(rule_id)
    assert rule is not None
    assert rule.state in {RuleState.REPLICATING, RuleState.OK}


def test_transfer_is_replicating_then_stuck_then_boosted_then_there(
    rucio: RucioClient, peer: RucioPeer, registered: Block
) -> None:
    peer.carry_out("hang")
    rule_id = rucio.ensure_rule(registered.name, peer.destination, activity=ACTIVITY)

    def state_after(transfers: str, wanted: RuleState) -> RuleState:
        for _ in range(PASSES):
            peer.carry_out(transfers)
            rule = rucio.rule(rule_id)
            assert rule is not None
            if rule.state is wanted:
                break
        return rule.state

    assert state_after("hang", RuleState.REPLICATING) is RuleState.REPLICATING
    assert state_after("fail", RuleState.STUCK) is RuleState.STUCK
    peer.carry_out("arrive")
    stuck = rucio.rule(rule_id)
    assert stuck is not None
    assert (stuck.state, stuck.locks_stuck) == (RuleState.STUCK, 3)
    rucio.boost_rule(rule_id)
    assert state_after("arrive", RuleState.OK) is RuleState.OK
    assert set(rucio.replicas(registered.lfns).values()) == {(peer.source, peer.destination)}


def test_rule_is_found_by_name_and_destination(
    rucio: RucioClient, peer: RucioPeer, registered: Block
) -> None:
    rule_id = rucio.ensure_rule(registered.name, peer.source, activity=ACTIVITY)

    assert rucio.find_rule(registered.name, peer.source) == rule_id
    assert rucio.find_rule(registered.name, peer.destination) is None
    assert rucio.find_rule(f"{registered.dataset}#unknown", peer.source) is None


def test_more_files_than_one_call_may_carry(rucio: RucioClient, peer: RucioPeer, block: Block) -> None:
    files = [
        replace(block.files[0], lfn=block.lfns[0].replace("/0.root", f"/{index}.root"))
        for index in range(MAX_NAMES_PER_CALL + 1)
    ]
    rucio.ensure_container(block.dataset)

    rucio.ensure_block(block.name, block.dataset, peer.source, files)

    assert len(list(plain_client(peer).list_files("cms", block.name))) == MAX_NAMES_PER_CALL + 1
    assert set(rucio.replicas([file.lfn for file in files]).values()) == {(peer.source,)}


def test_unknown_rule_is_returned_as_none_and_deleting_it_is_not_an_error(rucio: RucioClient) -> None:
    rucio.delete_rule("0" * 32)

    assert rucio.rule("0" * 32) is None


def test_boosting_an_unknown_rule_raises_not_found(rucio: RucioClient) -> None:
    with pytest.raises(NotFound):
        rucio.boost_rule("0" * 32)


def test_rule_for_an_unknown_name_is_not_found(rucio: RucioClient, peer: RucioPeer, block: Block) -> None:
    with pytest.raises(NotFound):
        rucio.ensure_rule(block.name, peer.source, activity=ACTIVITY)


@pytest.mark.parametrize(
    ("expression", "activity"), [("T2_XX_Nowhere", ACTIVITY), ("T2_CH_CERN", "Sightseeing")]
)
def test_rule_that_makes_no_sense_is_rejected(
    rucio: RucioClient, registered: Block, expression: str, activity: str
) -> None:
    with pytest.raises(ServiceRejected):
        rucio.ensure_rule(registered.name, expression, activity=activity)


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("T2_CH_CERN", ["T2_CH_CERN"]),
        ("T2_DE_DESY|T2_CH_CERN", ["T2_CH_CERN", "T2_DE_DESY"]),
        ("(tier=1|tier=2)&country=DE", ["T2_DE_DESY"]),
        ("rse_type=DISK\\tier=2&country=US", ["T1_US_FNAL_Disk"]),
        ("rse_type=TAPE", ["T1_US_FNAL_Tape"]),
        ("tier=9", []),
    ],
)
def test_storage_expressions(rucio: RucioClient, expression: str, expected: list[str]) -> None:
    assert rucio.rses(expression) == expected


def test_malformed_storage_expression_is_rejected(rucio: RucioClient) -> None:
    with pytest.raises(ServiceRejected):
        rucio.rses("((")


def test_destinations_come_from_matching_subscriptions(
    rucio: RucioClient, peer: RucioPeer, block: Block
) -> None:
    primary = block.dataset.split("/")[1]
    plain_client(peer).add_subscription(
        f"sub{primary.lower()[:20]}",
        peer.config.account,
        {"scope": ["cms"], "did_type": ["CONTAINER"], "pattern": f"^/{primary}/.*/AOD$"},
        [{"copies": 1, "rse_expression": peer.destination, "activity": ACTIVITY}],
        "",
        None,
        False,
        False,
    )

    assert rucio.subscriptions_matching(block.dataset) == [Destination(peer.destination, 1)]
    assert rucio.subscriptions_matching(block.dataset.replace("/AOD", "/MINIAOD")) == []
