"""The Rucio adapter with faults of Rucio; the behaviour without faults is tested in tests/contract/cms."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from output_blocks import BLOCK, DATASET, block_file

from cms.rucio import RucioClient
from cms.rucio_session import RucioConfig
from cms.types import RuleState
from wms2_project.errors import ServiceRejected, ServiceUnavailable

Lab = Callable[..., Any]
FILES = (block_file(0), block_file(1))
SOURCE, DESTINATION = "T2_CH_CERN", "T2_DE_DESY"


def fault(kind: str, path_regex: str = "", method: str = "POST", **more: Any) -> list[dict[str, Any]]:
    return [{"service": "rucio", "kind": kind, "path_regex": path_regex, "method": method, **more}]


def register(rucio: RucioClient) -> None:
    rucio.ensure_container(DATASET)
    rucio.ensure_block(BLOCK, DATASET, SOURCE, FILES)


def ensure_rule(rucio: RucioClient, expression: str = DESTINATION) -> str:
    return rucio.ensure_rule(BLOCK, expression, activity="Production Output")


def publish(rucio: RucioClient) -> None:
    register(rucio)
    ensure_rule(rucio)


@pytest.mark.parametrize("path", ["/AOD$", "/replicas$", "#.*/dids$", "/AOD/dids$", "/rules/"])
def test_step_that_succeeded_behind_an_error_is_adopted_next_time(
    rucio: RucioClient, lab: Lab, path: str
) -> None:
    lab("PUT", "faults", fault("success_then_500", path))

    with pytest.raises(ServiceUnavailable, match="500"):
        publish(rucio)
    publish(rucio)

    state = lab("GET", "state")["rucio"]
    assert state["containers"] == {DATASET: [BLOCK]}
    assert state["blocks"] == {BLOCK: {"name": BLOCK, "is_open": 0, "files": 2}}
    assert len(state["rules"]) == 1


@pytest.mark.parametrize("path", ["/AOD$", "#[^/]*$", "/replicas$", "#.*/dids$", "/AOD/dids$"])
def test_call_delivered_twice_counts_once(rucio: RucioClient, lab: Lab, path: str) -> None:
    lab("PUT", "faults", fault("duplicate", path))

    register(rucio)

    state = lab("GET", "state")
    assert state["faults"] == []
    assert state["rucio"]["blocks"] == {BLOCK: {"name": BLOCK, "is_open": 0, "files": 2}}


def test_closing_delivered_twice_counts_once(rucio: RucioClient, lab: Lab) -> None:
    lab("PUT", "faults", fault("duplicate", "/status$", method="PUT"))

    register(rucio)

    assert lab("GET", "state")["rucio"]["blocks"][BLOCK]["is_open"] == 0


def test_rule_delivered_twice_is_adopted(rucio: RucioClient, lab: Lab) -> None:
    register(rucio)
    lab("PUT", "faults", fault("duplicate", "/rules/"))

    rule_id = ensure_rule(rucio)

    assert [rule["id"] for rule in lab("GET", "state")["rucio"]["rules"]] == [rule_id]


def test_passing_failure_is_ridden_out(rucio: RucioClient, lab: Lab) -> None:
    lab("PUT", "faults", fault("status", method="*", status=503))

    assert rucio.rses("T2_CH_CERN") == ["T2_CH_CERN"]


def test_answer_that_does_not_come_is_unavailable(impatient_rucio: RucioClient, lab: Lab) -> None:
    impatient_rucio.rses("*")
    lab("PUT", "faults", fault("timeout", method="GET", seconds=20, times=None))

    with pytest.raises(ServiceUnavailable):
        impatient_rucio.rses("*")


def test_rule_whose_answer_came_too_late_is_adopted(impatient_rucio: RucioClient, lab: Lab) -> None:
    rucio = impatient_rucio
    register(rucio)
    lab("PUT", "faults", fault("slow", "/rules/", seconds=20))

    with pytest.raises(ServiceUnavailable):
        ensure_rule(rucio)
    rule_id = ensure_rule(rucio)

    assert [rule["id"] for rule in lab("GET", "state")["rucio"]["rules"]] == [rule_id]


@pytest.mark.parametrize("status", [500, 429])
def test_failing_login_is_unavailable_not_a_wrong_password(
    rucio_config: RucioConfig, lab: Lab, status: int
) -> None:
    lab("PUT", "faults", fault("status", "/auth/", method="GET", status=status))
    client = RucioClient(rucio_config)

    with pytest.raises(ServiceUnavailable, match=str(status)):
        client.rses("*")

    assert len(client.rses("*")) == 5


def test_wrong_password_is_rejected(rucio_config: RucioConfig) -> None:
    with pytest.raises(ServiceRejected, match="Cannot authenticate"):
        RucioClient(replace(rucio_config, password="guess")).rses("*")


def test_password_is_not_shown(rucio_config: RucioConfig) -> None:
    assert rucio_config.password not in repr(rucio_config)


def test_transfer_takes_its_time(rucio: RucioClient, lab: Lab) -> None:
    lab("PUT", "settings", {"rule_delay_sec": 3600})
    register(rucio)

    rule = rucio.rule(ensure_rule(rucio))

    assert rule is not None
    assert (rule.state, rule.locks_ok, rule.locks_replicating) == (RuleState.REPLICATING, 0, 2)
    assert rucio.replicas([FILES[0].lfn]) == {FILES[0].lfn: (SOURCE,)}


def test_finished_transfer_leaves_replicas(rucio: RucioClient) -> None:
    register(rucio)

    rule = rucio.rule(ensure_rule(rucio))

    assert rule is not None
    assert (rule.state, rule.locks_ok, rule.locks_replicating) == (RuleState.OK, 2, 0)
    assert rucio.replicas([FILES[0].lfn]) == {FILES[0].lfn: (SOURCE, DESTINATION)}


def test_stuck_rule_waits_for_a_boost(rucio: RucioClient, lab: Lab) -> None:
    register(rucio)
    lab("PUT", "faults", fault("stuck", "/rules/", body_regex=DESTINATION))
    rule_id = ensure_rule(rucio)

    stuck = rucio.rule(rule_id)
    rucio.boost_rule(rule_id)
    boosted = rucio.rule(rule_id)

    assert stuck is not None
    assert boosted is not None
    assert (stuck.state, stuck.locks_stuck) == (RuleState.STUCK, 2)
    assert "MissingSourceReplica" in stuck.error
    assert (boosted.state, boosted.error) == (RuleState.OK, "")


def test_more_names_than_a_call_may_carry(rucio: RucioClient) -> None:
    files = [block_file(index) for index in range(2001)]
    rucio.ensure_container(DATASET)
    rucio.ensure_block(BLOCK, DATASET, SOURCE, files)

    found = rucio.replicas([file.lfn for file in files])

    assert set(found.values()) == {(SOURCE,)}
    assert len(found) == 2001
