"""Cleanup of intermediates: removed datasets, times, waits, and killed workers."""

from __future__ import annotations

import os
import signal
from typing import Any

import pytest
from django.db import connections
from django.utils import timezone

from chains_app.models import Announcement, Chain, ChainDataset
from chains_app.services.advancing import advance_chain
from chains_app.services.announcing import announce, match_pending
from chains_app.services.cleaning import advance_removal, removal_plan
from chains_app.services.steering import cancel_chain
from chains_app.services.sweeping import claim_removals
from chains_app.states import ChainStatus, DatasetStatus
from outputs_app.models import OutputBlock, OutputDataset
from outputs_app.states import BlockStatus
from requests_app.models import Request
from requests_app.states import RequestStatus
from tests.integration.chains.conftest import (
    RAW,
    FakeDbs,
    advanced,
    end_request,
    make_actual,
    start,
    statuses,
)
from tests.integration.chains.documents import DIAMOND, LINEAR, WHEN
from tests.integration.factories import ago, make_request, make_workflow

POINTS = ("announce.stored", "announce.matched")
ADVANCING = ("chain.settled", "chain.planned", "chain.imported", "chain.cleaned", "chain.moved")


def run_chain(chain: Chain, *steps: str) -> Chain:
    for step in steps:
        end_request(chain, step)
        advanced(chain)
    return chain


def going(chain: Chain) -> set[str]:
    rows = chain.datasets.filter(status__in=["removing", "removed"]).select_related("producer")
    return {str(row.producer or "input") for row in rows if row.role != "log"}


def write_output(row: ChainDataset) -> None:
    """Create an announced dataset of this name, as the request of its step does."""
    request = row.producer.request if row.producer is not None else None
    workflow = request.workflow if request is not None else make_workflow()
    now = timezone.now()
    dataset = OutputDataset.objects.create(workflow=workflow, dataset_name=row.dataset_name, announced_at=now)
    OutputBlock.objects.create(
        dataset=dataset, block_name=f"{row.dataset_name}#1", site="T2_CH_CERN", rse="T2_CH_CERN",
        closed_at=now, status=BlockStatus.ANNOUNCED,
    )  # fmt: skip


@pytest.mark.django_db
@pytest.mark.usefixtures("fake_dbs")
class TestStrategies:
    def test_keep_removes_nothing(self) -> None:
        make_actual(cleanup="keep")
        chain = run_chain(advanced(start()), "skim", "slim", "join")

        assert chain.status == ChainStatus.FINISHED
        assert going(chain) == set()

    def test_safe_removes_intermediates_once_every_final_is_done(self) -> None:
        make_actual(cleanup="safe")
        chain = run_chain(advanced(start()), "skim", "slim")
        assert going(chain) == set()

        run_chain(chain, "join")

        assert going(chain) == {"skim", "slim"}

    def test_every_final_counts_not_only_the_first(self) -> None:
        make_actual(DIAMOND, cleanup="safe")
        chain = run_chain(advanced(start()), "skim", "left")
        assert going(chain) == set()

        run_chain(chain, "right")

        assert going(chain) == {"skim"}

    def test_greedy_waits_for_every_consumer(self) -> None:
        make_actual(DIAMOND, cleanup="greedy")
        chain = run_chain(advanced(start()), "skim", "left")
        assert going(chain) == set()

        run_chain(chain, "right")

        assert going(chain) == {"skim"}

    def test_greedy_removes_each_intermediate_after_its_last_consumer(self) -> None:
        make_actual(cleanup="greedy")
        chain = run_chain(advanced(start()), "skim", "slim")

        assert going(chain) == {"skim"}
        assert chain.status == ChainStatus.RUNNING

    def test_input_is_deleted_only_if_the_template_allows_it(self) -> None:
        make_actual(cleanup="safe", delete_input=True)
        chain = run_chain(advanced(start()), "skim", "slim", "join")

        assert going(chain) == {"input", "skim", "slim"}

    def test_log_datasets_are_kept_on_request(self) -> None:
        make_actual(cleanup="safe", keep_logs=True)
        chain = run_chain(advanced(start()), "skim", "slim", "join")

        assert not chain.datasets.filter(role="log", status="removing").exists()

    def test_plan_names_why_a_dataset_is_never_removed(self) -> None:
        make_actual(WHEN, cleanup="safe")
        chain = run_chain(advanced(start()), "skim")
        advanced(chain)

        plan = {one.dataset_name: (one.removed, one.when) for one in removal_plan(chain)}

        assert chain.status == ChainStatus.FINISHED
        for row in chain.datasets.filter(producer__step="extra"):
            assert plan[row.dataset_name] == (False, "never: it was not made, extra is skipped")
        assert plan[RAW] == (False, "never: the template keeps it")

    def test_plan_of_a_cancelled_chain_removes_nothing(self) -> None:
        make_actual(cleanup="safe")
        chain = run_chain(advanced(start()), "skim")
        cancel_chain(chain=chain, actor="user:ana", reason="r")

        plan = {
            one.dataset_name: (one.removed, one.when) for one in removal_plan(Chain.objects.get(pk=chain.pk))
        }

        made = chain.datasets.get(producer__step="skim", port="out", role="intermediate").dataset_name
        assert plan.pop(made) == (False, "never: the chain is cancelled")
        assert not any(removed for removed, _ in plan.values())

    def test_consumers_are_counted_over_all_requests_and_chains(self) -> None:
        make_actual(cleanup="safe")
        chain = run_chain(advanced(start()), "skim", "slim", "join")
        row = chain.datasets.get(producer__step="skim", port="out")
        write_output(row)
        reader = make_request(
            workflow=make_workflow(input_dataset=row.dataset_name), status=RequestStatus.ACTIVE
        )

        advance_removal(row.pk)
        row.refresh_from_db()

        assert row.status == DatasetStatus.REMOVING
        assert str(reader) in row.wait_reason
        plan = {one.dataset_name: one for one in removal_plan(chain)}
        assert plan[row.dataset_name].waits_for == [f"request {reader}"]
        Request.objects.filter(pk=reader.pk).update(status=RequestStatus.COMPLETED)
        other = make_actual(LINEAR, name="second")
        announce(uid="other", name=row.dataset_name, actor="user:ana", template=other.name)
        advance_removal(row.pk)
        row.refresh_from_db()
        assert "step skim" in row.wait_reason
        assert not OutputDataset.objects.filter(status="removed").exists()

    def test_foreign_dataset_is_kept(self) -> None:
        make_actual(cleanup="safe", delete_input=True)
        chain = run_chain(advanced(start()), "skim", "slim", "join")
        row = chain.datasets.get(dataset_name=RAW)

        advance_removal(row.pk)

        row.refresh_from_db()
        assert row.status == DatasetStatus.COMPLETE
        assert chain.events.filter(kind="dataset", reason__contains="WMS2 has not written it").exists()


def dies_at(point: str, act: Any) -> bool:
    """Run a function in a process that is killed at a failpoint; return whether it was."""
    connections.close_all()
    pid = os.fork()
    if not pid:
        code = 1
        try:
            os.environ |= {"WMS2_FAILPOINT": point, "WMS2_LAB": "1"}
            act()
            code = 0
        finally:
            os._exit(code)
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    assert status in (0, -signal.SIGKILL)
    return status == -signal.SIGKILL


@pytest.mark.django_db(transaction=True)
def test_death_at_every_step_of_advancing_and_cleaning_loses_and_doubles_nothing(fake_dbs: FakeDbs) -> None:
    make_actual(DIAMOND, cleanup="safe")
    for number, point in enumerate(POINTS):
        assert dies_at(point, lambda: announce(uid=str(number), name=RAW, actor="user:ana"))  # noqa: B023
    announce(uid="1", name=RAW, actor="user:ana")  # a task that died before its commit is delivered again
    match_pending()
    assert [row.chains.count() for row in Announcement.objects.order_by("uid")] == [1, 1]
    chain = Chain.objects.order_by("id")[0]
    deaths = set()
    for step in ("", "skim", "left", "right"):
        if step:
            end_request(chain, step)
        for point in ADVANCING:
            if dies_at(point, lambda: advance_chain(chain.pk)):
                deaths.add(point)
        advanced(chain)
    assert deaths == set(ADVANCING)
    assert chain.status == ChainStatus.FINISHED
    assert set(statuses(chain).values()) == {"finished"}
    assert Request.objects.count() == 3
    row = chain.datasets.get(producer__step="skim", port="out")
    write_output(row)
    for point in ("cleanup.decided", "cleanup.requested"):
        assert dies_at(point, lambda: advance_removal(row.pk)), point
    OutputBlock.objects.update(status=BlockStatus.INVALIDATED)
    ChainDataset.objects.update(
        heartbeat_at=ago(minutes=5), next_check_at=ago(minutes=5)
    )  # its lease has expired
    assert row.pk in {claim.id for claim in claim_removals()}, "a removal that died is due again"
    advance_removal(row.pk)
    row.refresh_from_db()
    assert row.status == DatasetStatus.REMOVED
    assert OutputDataset.objects.get(dataset_name=row.dataset_name).status == "removed"
