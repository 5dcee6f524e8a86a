"""Steps that start with their producer and take its files one by one."""

from __future__ import annotations

import pytest
from django.utils import timezone

from chains_app.models import Chain
from chains_app.services.steering import retry_step
from chains_app.services.sweeping import wake_chains
from chains_app.services.templates import check_template
from chains_app.states import ChainStatus
from requests_app.models import Request
from requests_app.states import RequestStatus
from tests.integration.chains.conftest import SIGNED, advanced, end_request, make_actual, start, statuses
from tests.integration.chains.documents import HEAD, tool

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("fake_dbs")]
PULL = ", allocation: pull"
STREAMED = f"""{HEAD}
inputs: {{data: Directory}}
steps:
  first:
    in: {{data: data}}
    out: [out]
    run: {tool(request=PULL)}
  second:
    in: {{data: first/out}}
    out: [out]
    run: {tool(request=PULL, hint="start: first_file, ")}
  third:
    in: {{data: second/out}}
    out: [out]
    run: {tool()}
outputs: {{result: {{type: Directory, outputSource: third/out}}}}
"""


@pytest.fixture
def chain() -> Chain:
    """Return a chain whose first two steps run."""
    make_actual(STREAMED)
    made = advanced(advanced(start()))
    assert statuses(made) == {"first": "running", "second": "running", "third": "defined"}
    return made


def request_of(chain: Chain, step: str) -> Request:
    found = chain.steps.get(step=step).request
    assert found is not None
    return found


def test_a_streaming_step_becomes_a_request_that_reads_from_its_producer(chain: Chain) -> None:
    first, second = (request_of(chain, step).workflow for step in ("first", "second"))
    assert second.input_from == first
    assert second.input_datasets == ()
    assert not chain.datasets.filter(producer__step="second", role="log").exists()
    written = chain.datasets.get(producer__step="first", role="intermediate")
    assert [str(one) for one in written.consumers.all()] == ["second"]


def test_starts_of_a_chain_need_no_wake_up_between_them() -> None:
    make_actual(STREAMED)
    made = advanced(start())
    assert Chain.objects.filter(pk=made.pk, next_check_at__lte=timezone.now()).exists()
    assert statuses(advanced(made))["second"] == "running"


def test_steps_after_a_streaming_one_wait_until_it_is_finished(chain: Chain) -> None:
    end_request(chain, "first")
    assert statuses(advanced(chain)) == {"first": "finished", "second": "running", "third": "defined"}
    end_request(chain, "second")
    assert statuses(advanced(chain))["third"] == "running"
    end_request(chain, "third")
    assert advanced(chain).status == ChainStatus.FINISHED


def test_a_step_whose_producer_was_aborted_is_held_and_can_be_retried_after_it(chain: Chain) -> None:
    end_request(chain, "first", RequestStatus.ABORTED)
    end_request(chain, "second")
    advanced(chain)
    assert statuses(chain) == {"first": "held", "second": "held", "third": "defined"}
    assert chain.hold_evidence is not None
    assert "its input is a part only" in str(chain.steps.get(step="second").hold_evidence)
    assert wake_chains() == 0
    retry_step(chain=chain, step="first", **SIGNED)
    retry_step(chain=chain, step="second", **SIGNED)
    advanced(advanced(chain))
    assert request_of(chain, "second").workflow.input_from == request_of(chain, "first").workflow


def test_a_step_that_streams_from_no_other_step_is_refused() -> None:
    document = STREAMED.replace("data: first/out", "data: data")
    assert "needs one other step as its input" in str(check_template(document).problems)
