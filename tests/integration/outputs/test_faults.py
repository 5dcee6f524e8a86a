"""Every call of every step × every fault: one registration and one rule per place in the end."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from typing import Any

import pytest
from django.utils import timezone

from dags_app.adapters import dbs, rucio, use_adapters
from dags_app.models import Workflow
from outputs_app.models import OutputBlock
from outputs_app.pipeline import Step
from outputs_app.services import invalidate_outputs
from outputs_app.states import BlockStatus
from tests.integration.outputs.blocks import DESTINATION, SOURCE, add_block, walk
from tests.integration.outputs.conftest import Faults

pytestmark = pytest.mark.django_db

Target = tuple[str, str, str, str]  # service, method, path, body
CALLS: dict[Step, dict[str, Target]] = {
    Step.CHECK: {},  # asks the storage: tests/integration/outputs/test_checking.py
    Step.REGISTER: {
        "look": ("dbs", "GET", "blocks", ""),
        "insert": ("dbs", "POST", "bulkblocks", ""),
    },
    Step.PROTECT: {
        "log_in": ("rucio", "GET", "/auth/", ""),
        "make_container": ("rucio", "POST", "/dids/cms/[^#]*$", "CONTAINER"),
        "make_block": ("rucio", "POST", "/dids/cms/.*#\\d+$", "DATASET"),
        "add_replicas": ("rucio", "POST", "/replicas", ""),
        "attach_files": ("rucio", "POST", "#\\d+/dids$", ""),
        "attach_block": ("rucio", "POST", "AOD/dids$", ""),
        "close_block": ("rucio", "PUT", "/status$", ""),
        "make_rule": ("rucio", "POST", "/rules", SOURCE),
    },
    Step.REQUEST_TRANSFERS: {
        "subscriptions": ("rucio", "GET", "/subscriptions", ""),
        "destinations": ("rucio", "GET", "/rses", ""),
        "make_rule": ("rucio", "POST", "/rules", DESTINATION),
    },
    Step.POLL_TRANSFERS: {"read_rule": ("rucio", "GET", "/rules/", "")},
    Step.RELEASE_SOURCE: {"delete_rule": ("rucio", "DELETE", "/rules/", "")},
    Step.ANNOUNCE: {},
    Step.UNDO: {
        "look": ("dbs", "GET", "blocks", ""),
        "set_status": ("dbs", "PUT", "datasets", ""),
        "read_back": ("dbs", "GET", "datasets", ""),
        "delete_rule": ("rucio", "DELETE", "/rules/", ""),
    },
}
FAULTS: dict[str, dict[str, Any]] = {
    "5xx": {"kind": "status", "status": 503},
    "timeout": {"kind": "timeout", "seconds": 0.4},
    "slow": {"kind": "slow", "seconds": 0.05},
    "success_then_500": {"kind": "success_then_500"},
    "duplicate": {"kind": "duplicate"},
}
REPEATED = {"5xx", "timeout", "success_then_500"}  # by the adapters, if the call is safe
# Faults of single calls: a copy that hangs, and a block that DBS has with other counts
ODD_FAULTS = {
    (Step.REQUEST_TRANSFERS, "make_rule", "stuck"): [{"kind": "stuck"}],
    (Step.REGISTER, "insert", "wrong_counts"): [
        {"kind": "success_then_500"},
        {"kind": "wrong_counts", "method": "GET", "path_regex": "blocks", "times": 2},
    ],
}
Cell = tuple[Step, str, str]
CELLS: list[Cell] = [
    *((step, call, fault) for step, calls in CALLS.items() for call in calls for fault in FAULTS),
    *ODD_FAULTS,
]


def faults_of(cell: Cell) -> list[dict[str, Any]]:
    """Return the faults of a cell, repeated as often as the adapter retries."""
    step, call, fault = cell
    service, method, path, body = CALLS[step][call]
    hit: dict[str, Any] = {"service": service, "method": method, "path_regex": path, "body_regex": body}
    hit["times"] = 3 if method == "GET" and fault in REPEATED else 1
    return [hit | found for found in ODD_FAULTS.get(cell) or [FAULTS[fault]]]


def cells(*, undo: bool) -> Any:
    chosen = [cell for cell in CELLS if (cell[0] is Step.UNDO) is undo]
    return pytest.mark.parametrize("cell", chosen, ids=["-".join(cell) for cell in chosen])


@pytest.fixture
def _impatient(settings: Any, lab: Any) -> None:
    settings.SERVICE_TIMEOUT_SEC = 0.3
    lab("PUT", "settings", {"rule_delay_sec": 0})


@pytest.mark.usefixtures("subscribed", "_impatient")
@cells(undo=False)
def test_with_a_fault_at_any_call_the_block_is_registered_once(
    cell: Cell, block: OutputBlock, faults: Faults, lab: Any
) -> None:
    faults(*faults_of(cell))
    walk(block)
    assert (block.status, block.last_error, block.failing_since) == (BlockStatus.ANNOUNCED, "", None)
    state = lab("GET", "state")
    assert state["faults"] == [], "the call never met its fault"
    assert_registered_once(block, state)


@pytest.mark.usefixtures("subscribed", "_impatient")
@cells(undo=True)
def test_with_a_fault_during_withdrawal_nothing_is_left(
    cell: Cell, block: OutputBlock, workflow: Workflow, faults: Faults, lab: Any
) -> None:
    walk(block)
    invalidate_outputs(workflow=workflow, actor="user:olga", reason="a test", now=timezone.now())
    faults(*faults_of(cell))
    walk(block)
    assert (block.status, block.last_error) == (BlockStatus.INVALIDATED, "")
    state = lab("GET", "state")
    assert state["faults"] == [], "the call never met its fault"
    assert state["dbs"]["datasets"][block.dataset.dataset_name]["access_type"] == "INVALID"
    rules = [rule for rule in state["rucio"]["rules"] if rule["name"] == block.block_name]
    assert (len(rules), [rule for rule in rules if rule["expires_at"] is None]) == (2, [])


def test_every_step_is_in_the_table() -> None:
    assert set(CALLS) == set(Step)


def assert_registered_once(block: OutputBlock, state: Any) -> None:
    dataset = block.dataset.dataset_name
    assert state["dbs"]["blocks"][block.block_name]["file_count"] == 2
    assert state["dbs"]["datasets"][dataset] == {
        "name": dataset, "access_type": "PRODUCTION", "blocks": 1, "files": 2, "events": 20,
        "size_bytes": 2001,
    }  # fmt: skip
    assert state["rucio"]["containers"][dataset] == [block.block_name]
    assert state["rucio"]["blocks"][block.block_name] == {"name": block.block_name, "is_open": 0, "files": 2}
    rules = [rule for rule in state["rucio"]["rules"] if rule["name"] == block.block_name]
    kept = {rule["rse_expression"]: rule["expires_at"] is None for rule in rules}
    assert (len(rules), kept) == (2, {SOURCE: False, DESTINATION: True})
    assert {rule.rule_id for rule in block.rules.all()} == {rule["id"] for rule in rules}
    held = rucio().replicas([file.lfn for file in block.files.all()])
    assert all(DESTINATION in storages for storages in held.values())
    assert len(dbs().block_files(block.block_name)) == 2


@pytest.mark.usefixtures("subscribed")
def test_the_source_is_kept_until_the_copy_is_there(block: OutputBlock, lab: Any) -> None:
    lab("PUT", "settings", {"rule_delay_sec": 3600})
    walk(block, looks=10)
    source = rucio().rule(block.rules.get(kind="source").rule_id)
    assert source is not None
    assert (block.status, source.expires_at) == (BlockStatus.TRANSFERRING, None)


class Death(BaseException):
    """Death of the worker, which no code catches."""


class Dying:
    """An adapter whose n-th call has its effect and then kills the worker."""

    def __init__(self, adapter: Any, calls: Iterator[int], nth: int) -> None:
        self._adapter, self._calls, self._nth = adapter, calls, nth

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._adapter, name)

        def call(*args: Any, **options: Any) -> Any:
            answer = method(*args, **options)
            if next(self._calls) == self._nth:
                raise Death(name)
            return answer

        return call


@pytest.mark.usefixtures("subscribed")
def test_a_worker_that_dies_after_any_call_leaves_nothing_lost_or_doubled(
    workflow: Workflow, lab: Any
) -> None:
    lab("PUT", "settings", {"rule_delay_sec": 0})
    real_dbs, real_rucio = dbs(), rucio()
    for nth in range(20):
        block = add_block(workflow, dataset=workflow.output_datasets[0].replace("-v1", f"-v{nth + 1}"))
        calls = count()
        with use_adapters(dbs=Dying(real_dbs, calls, nth), rucio=Dying(real_rucio, calls, nth)):
            try:
                walk(block)
                died = False
            except Death:
                died = True
        walk(block)
        assert (block.status, block.last_error) == (BlockStatus.ANNOUNCED, ""), f"after call {nth}"
        assert_registered_once(block, lab("GET", "state"))
        if not died:
            break
    assert (died, nth) == (False, 12), "a worker died after each of the twelve calls"
