"""Outputs on real services: files that are checked before they are registered, transfers that get stuck and
finish, and versions that are taken back.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import requests
from django.core.management import CommandError, call_command
from django.utils import timezone

from dags_app.adapters import dbs, rucio
from dags_app.models import DAG, MergeGroup, Workflow
from outputs_app.models import OutputBlock, OutputFile, RucioRule
from outputs_app.services import invalidate_outputs
from requests_app.models import Request
from sandbox.manifest import read_group_manifest
from tests.e2e.conftest import Json, Stack
from tests.e2e.steering import assert_every_event_once, newest, slow
from tests.waiting import until
from wms2_project.locks import try_lock

WAIT_SEC = 900.0


def lab(stack: Stack, method: str, path: str, body: Any = None) -> Any:
    answer = requests.request(method, f"{stack.cms_url}/lab/{path}", json=body, timeout=10)
    assert answer.status_code < 300, answer.text
    return answer.json()


def wait_until(what: str, holds: Callable[[], bool]) -> None:
    end = time.monotonic() + WAIT_SEC
    while not holds():
        if time.monotonic() > end:
            pytest.fail(f"still not after {WAIT_SEC:g} s: {what}")
        time.sleep(0.2)


def blocks_of(name: str) -> list[OutputBlock]:
    return list(OutputBlock.objects.filter(dataset__workflow__request_name=name).order_by("block_name"))


def transfer_states(name: str) -> set[str]:
    rules = (rule for block in blocks_of(name) for rule in block.rules.filter(kind="transfer"))
    return {rule.state for rule in rules}


def protected(block: OutputBlock) -> bool:
    return block.rules.filter(kind="source").exclude(rule_id="").exists()


def assert_taken_back(stack: Stack, name: str) -> None:
    """Check that the outputs of the request are INVALID in DBS and have no rule."""
    wait_until("the sweep took it all back", lambda: {b.status for b in blocks_of(name)} == {"invalidated"})
    ours = {block.block_name for block in blocks_of(name)}
    for dataset in {block.partition("#")[0] for block in ours}:
        info = dbs().dataset(dataset)
        assert info is not None
        assert info.access_type == "INVALID"
    rules = [rule for rule in lab(stack, "GET", "state")["rucio"]["rules"] if rule["name"] in ours]
    assert [rule for rule in rules if rule["expires_at"] is None] == []


@pytest.fixture
def transferred(stack: Stack, suffix: str) -> Json:
    """Return a request whose outputs are subscribed elsewhere, from REPLICATING over STUCK to OK."""
    document = stack.seed(suffix)[2]
    wanted = {"pattern": f"^{document['OutputDatasets'][0]}$", "rse_expression": "T2_US_Purdue"}
    lab(stack, "POST", "subscriptions", {"name": f"e2e{suffix}", **wanted})
    lab(stack, "PUT", "settings", {"rule_delay_sec": 3600})
    try:
        name = stack.post("requests", document)["request_name"]
        wait_until("transfers are under way", lambda: transfer_states(name) == {"REPLICATING"})
        wait_until("every block is protected", lambda: all(protected(block) for block in blocks_of(name)))
        for block in blocks_of(name):
            source = rucio().rule(block.rules.get(kind="source").rule_id)
            assert source is not None
            assert source.expires_at is None, "the source is kept until the copies are there"
        change = {"rse_expression": "T2_US_Purdue"}
        lab(stack, "PUT", "rules", {**change, "from": "REPLICATING", "to": "STUCK"})
        wait_until("stuck rules are seen", lambda: "STUCK" in transfer_states(name))
        lab(stack, "PUT", "settings", {"rule_delay_sec": 0})
        # boosted rules are REPLICATING again; those not looked at yet are boosted at the next poll
        wait_until(
            "every stuck rule is boosted",
            lambda: lab(stack, "PUT", "rules", {**change, "from": "STUCK", "to": "STUCK"})["changed"] == 0,
        )
        lab(stack, "PUT", "rules", {**change, "from": "REPLICATING", "to": "REPLICATING"})
        return stack.wait_for(name, "completed")
    finally:
        lab(stack, "PUT", "settings", {"rule_delay_sec": 0})
        # transfers of other tests had this delay as well: they start again
        lab(stack, "PUT", "rules", {"from": "REPLICATING", "to": "REPLICATING"})


def test_stuck_transfers_are_boosted_and_outputs_can_be_taken_back(stack: Stack, transferred: Json) -> None:
    name = transferred["request_name"]
    assert transfer_states(name) == {"OK"}
    for block in blocks_of(name):
        lfns = [file.lfn for file in block.files.all()]
        assert all("T2_US_Purdue" in held for held in rucio().replicas(lfns).values())
    call_command("reconcile", name)
    # Blocks made at the destination need no transfer.
    lost = RucioRule.objects.filter(block__in=blocks_of(name), kind="transfer")[0]
    rucio().delete_rule(lost.rule_id)
    with pytest.raises(CommandError, match="differences: 1"):
        call_command("reconcile", name)
    call_command("reconcile", name, "--repair", "--reason", "a rule was deleted")
    restored = rucio().rule(lost.rule_id)
    assert restored is not None
    assert restored.expires_at is None

    workflow = Workflow.objects.get(request_name=name)
    invalidate_outputs(workflow=workflow, actor="user:test", reason="a better version", now=timezone.now())
    assert_taken_back(stack, name)
    call_command("reconcile", name)


@contextmanager
def left_alone(name: str) -> Iterator[None]:
    """Keep workers from advancing the request in the block, so that none of its groups is collected."""
    key = Request.objects.get(request_name=name).pk
    while True:
        with try_lock(f"request {key}") as held:
            if held:
                yield
                return
        time.sleep(0.05)


def is_submitted(name: str) -> bool:
    return DAG.objects.filter(workflow__request_name=name, submitted_at__isnull=False).exists()


def damaged(stack: Stack, group: MergeGroup) -> tuple[str, Path, bytes]:
    """Flip bytes in the merged file of a finished group; return its name, its path and what it was."""
    manifest = read_group_manifest(
        Path(newest(group.round.workflow.request_name).submit_dir) / group.name / "merge_output.json"
    )
    lfn = manifest.outputs[0].lfn
    path = Path(stack.storage_prefix.replace("{site}", manifest.site) + lfn)
    good = path.read_bytes()
    path.write_bytes(good[:-8] + bytes(byte ^ 0x55 for byte in good[-8:]))
    return lfn, path, good


def test_a_merged_file_that_was_damaged_is_never_registered(stack: Stack, suffix: str) -> None:
    name = stack.post("requests", slow(stack.seed(suffix)[2]))["request_name"]
    until(lambda: is_submitted(name))
    with left_alone(name):
        group = MergeGroup.objects.filter(round__workflow__request_name=name).exclude(status="collected")[0]
        done = Path(newest(name).submit_dir) / group.name / "merge_output.json"
        until(done.exists)
        lfn, path, good = damaged(stack, group)
    held = stack.wait_for(name, "held")
    assert held["hold_evidence"]["gate"] == "output check"
    (wrong,) = held["hold_evidence"]["files"]
    file = OutputFile.objects.select_related("block").get(lfn=lfn)
    assert (wrong["lfn"], wrong["site"]) == (lfn, file.block.site)
    assert f"{file.adler32} reported by its job" in wrong["problem"]
    assert (file.block.status, dbs().block(file.block.block_name)) == ("failed", None)

    path.write_bytes(good)
    stack.post(f"requests/{name}/release", {"reason": "restored from a copy"}, expect=200)
    stack.wait_for(name, "completed")
    assert dbs().block(OutputFile.objects.get(lfn=lfn).block.block_name) is not None
    assert not OutputFile.objects.filter(
        block__dataset__workflow__request_name=name, checked_at=None
    ).exists()
    assert_every_event_once(stack, name)
