"""The whole pipeline of a block, and its withdrawal, on the lab's Rucio and on a real one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.utils import timezone
from rucio_peers import DESTINATION, SOURCE, RucioPeer

from cms.rucio import RucioClient
from cms.rucio_session import connect
from dags_app.adapters import build_dbs, build_rucio, use_adapters
from lab.cms_world.server import running_world
from outputs_app.models import OutputBlock
from outputs_app.services import advance_block, find_differences, invalidate_outputs
from outputs_app.states import BlockStatus
from tests.integration.outputs.blocks import add_block, make_producer, walk

pytestmark = pytest.mark.django_db
B = BlockStatus


@pytest.fixture
def _on_this_rucio(peer: RucioPeer, settings: Any, tmp_path: Path) -> Iterator[None]:
    """Use the peer as Rucio and the lab's DBS."""
    with running_world(tmp_path) as world:
        config = peer.config
        settings.CMS_SERVICES = {
            **settings.CMS_SERVICES,
            "dbs_url": f"{world.url}/dbs/DBSReader",
            "dbs_writer_url": f"{world.url}/dbs/DBSWriter",
            "rucio_url": config.url,
            "rucio_auth_url": config.auth_url,
            "rucio_account": config.account,
            "rucio_username": config.username,
            "rucio_password": config.password,
        }
        settings.TRANSFER_POLL_INTERVAL_SEC = 0.0
        with use_adapters(dbs=build_dbs(), rucio=build_rucio()):
            yield


@pytest.mark.usefixtures("_on_this_rucio")
def test_a_block_is_protected_copied_released_announced_and_taken_back(
    peer: RucioPeer, rucio: RucioClient
) -> None:
    workflow = make_producer()
    block = add_block(workflow)
    OutputBlock.objects.filter(pk=block.pk).update(rse=SOURCE)
    primary = workflow.output_datasets[0].split("/")[1]
    connect(peer.config).add_subscription(
        f"walk{primary.lower()}"[:25],
        peer.config.account,
        {"scope": ["cms"], "did_type": ["CONTAINER"], "pattern": f"^/{primary}/.*"},
        [{"copies": 1, "rse_expression": DESTINATION, "activity": "Production Output"}],
        "",
        None,
        False,
        False,
    )
    peer.carry_out("hang")
    walk(block, looks=4)
    assert (block.status, block.last_error) == (B.TRANSFERRING, "")
    for _ in range(6):
        peer.carry_out("arrive")
        advance_block(block.pk)
    walk(block)
    assert block.status == B.ANNOUNCED
    source, copy = (rucio.rule(block.rules.get(kind=kind).rule_id) for kind in ("source", "transfer"))
    assert copy is not None
    assert (copy.state, copy.expires_at, source is None or source.expires_at is not None) == (
        "OK",
        None,
        True,
    )
    assert find_differences(workflow=workflow) == []

    invalidate_outputs(workflow=workflow, actor="user:olga", reason="a test", now=timezone.now())
    walk(block)
    gone = rucio.rule(copy.rule_id)
    assert block.status == B.INVALIDATED
    assert gone is None or gone.expires_at is not None
