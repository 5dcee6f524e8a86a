"""Chains: steps start when their inputs are ready, and chains follow their requests."""

from __future__ import annotations

import pytest
from django.utils import timezone

from chains_app.models import Chain, ChainStep
from chains_app.selectors.chains import chain_why
from chains_app.services import starting
from chains_app.services.advancing import advance_chain
from chains_app.services.sweeping import claim_chains, wake_chains
from chains_app.states import ChainStatus, DatasetRole
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
from tests.integration.chains.documents import LINEAR, SCATTER, WHEN, tool
from tests.integration.factories import make_request, make_workflow
from wms2_project.errors import ServiceUnavailable

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("fake_dbs")]


def test_every_step_has_its_names_before_the_first_one_starts() -> None:
    make_actual()

    chain = start()

    assert statuses(chain) == {"skim": "defined", "slim": "defined", "join": "defined"}
    roles = list(chain.datasets.order_by("id").values_list("role", flat=True))
    assert roles.count(DatasetRole.LOG) == 3
    assert roles.count(DatasetRole.FINAL) == 1
    assert len(set(chain.datasets.values_list("dataset_name", flat=True))) == 7
    assert Request.objects.count() == 0


def test_linear_chain_makes_one_request_after_another_until_it_is_finished() -> None:
    make_actual()
    chain = advanced(start())

    assert chain.status == ChainStatus.RUNNING
    assert statuses(chain) == {"skim": "running", "slim": "defined", "join": "defined"}
    first = Request.objects.get()
    assert first.workflow.input_dataset == RAW
    assert first.requestor == "ana"
    for step in ("skim", "slim", "join"):
        end_request(chain, step)
        advanced(chain)

    assert chain.status == ChainStatus.FINISHED
    assert set(statuses(chain).values()) == {"finished"}
    last = chain.steps.get(step="join").request
    assert last is not None
    assert last.workflow.input_dataset == chain.datasets.get(producer__step="slim", port="out").dataset_name
    assert last.workflow.payload_config["kind"] == "merge"


def test_repeated_advance_makes_no_second_request() -> None:
    make_actual()
    chain = start()

    for _ in range(3):
        advance_chain(chain.pk)

    assert Request.objects.count() == 1


def test_request_imported_before_a_crash_is_adopted() -> None:
    make_actual()
    chain = advanced(start())
    row = chain.steps.get(step="skim")
    request = row.request
    ChainStep.objects.filter(pk=row.pk).update(status="defined", request=None)

    advanced(chain)

    assert Request.objects.count() == 1
    assert chain.steps.get(step="skim").request == request


@pytest.mark.parametrize(
    ("access", "opened", "words"),
    [
        (None, frozenset[str](), "not in DBS yet"),
        ("PRODUCTION", frozenset[str](), "is PRODUCTION in DBS"),
        ("VALID", frozenset({f"{RAW}#1"}), "1 open blocks"),
    ],
)
def test_first_step_waits_until_its_dataset_is_complete(
    fake_dbs: FakeDbs, access: str | None, opened: frozenset[str], words: str
) -> None:
    fake_dbs.access = {RAW: access} if access else {}
    fake_dbs.opened = {RAW: opened}
    make_actual()

    chain = advanced(start())

    assert chain.status == ChainStatus.DEFINED
    assert words in chain.wait_reason
    assert Request.objects.count() == 0
    fake_dbs.access, fake_dbs.opened = {RAW: "VALID"}, {}
    assert advanced(chain).status == ChainStatus.RUNNING


@pytest.mark.parametrize(
    ("access", "opened", "words"),
    [
        (None, frozenset[str](), "not in DBS any more"),
        ("INVALID", frozenset[str](), "is INVALID in DBS"),
        ("VALID", frozenset({f"{RAW}#2"}), "1 open blocks again"),
    ],
)
def test_dataset_that_vanishes_or_reopens_before_its_step_holds_the_chain(
    fake_dbs: FakeDbs, access: str | None, opened: frozenset[str], words: str
) -> None:
    make_actual(LINEAR.replace("tier: AOD, ", "tier: AOD, approval: true, ", 1))
    chain = advanced(start())
    assert chain.steps.get(step="skim").wait_reason == "waits for the approval of an operator"
    fake_dbs.access, fake_dbs.opened = ({RAW: access} if access else {}), {RAW: opened}

    advanced(chain)

    assert chain.status == ChainStatus.HELD
    assert chain.hold_evidence is not None
    assert words in chain.hold_evidence["steps"][0]["reason"]
    assert Request.objects.count() == 0


def test_held_request_holds_the_chain_and_releasing_it_is_enough() -> None:
    make_actual()
    chain = advanced(start())
    end_request(chain, "skim", RequestStatus.HELD, hold_evidence={"reason": "no site"})

    advanced(chain)

    assert chain.status == ChainStatus.HELD
    step = chain.steps.get(step="skim")
    assert step.hold_evidence is not None
    assert step.hold_evidence["request_evidence"] == {"reason": "no site"}
    end_request(chain, "skim", RequestStatus.QUEUED)
    assert advanced(chain).status == ChainStatus.RUNNING
    assert statuses(chain)["skim"] == "running"


def test_failed_child_of_a_scatter_holds_the_fan_in_by_name() -> None:
    make_actual(SCATTER)
    chain = advanced(start())
    children = list(chain.steps.filter(step="skim").order_by("id"))
    end_request(chain, "skim")
    Request.objects.filter(request_name=children[1].request_name).update(status=RequestStatus.FAILED)

    advanced(chain)

    assert chain.status == ChainStatus.HELD
    assert chain.hold_evidence is not None
    assert "skim[1]" in chain.hold_evidence["steps"][0]["reason"]
    assert statuses(chain)["join"] == "defined"


def test_scatter_makes_one_request_per_element_and_the_fan_in_reads_all() -> None:
    make_actual(SCATTER)
    chain = advanced(start())

    rows = list(chain.steps.filter(step="skim").select_related("request__workflow").order_by("id"))
    runs = [row.request.workflow.splitting_params["run_whitelist"] for row in rows if row.request]
    assert runs == [[1], [2], [3]]
    end_request(chain, "skim")
    advanced(chain)

    join = chain.steps.get(step="join")
    assert join.request is not None
    outputs = [chain.datasets.get(producer=row, port="out").dataset_name for row in rows]
    assert list(join.request.workflow.input_datasets) == outputs
    end_request(chain, "join")
    assert advanced(chain).status == ChainStatus.FINISHED


def test_one_ended_request_does_not_finish_a_scattered_step() -> None:
    make_actual(SCATTER)
    chain = advanced(start())
    first = chain.steps.filter(step="skim").order_by("id")[0]
    Request.objects.filter(request_name=first.request_name).update(status=RequestStatus.COMPLETED)
    wake_chains()

    advanced(chain)

    assert statuses(chain) == {
        "skim[0]": "finished",
        "skim[1]": "running",
        "skim[2]": "running",
        "join": "defined",
    }


def test_false_condition_skips_the_step_and_the_chain_finishes() -> None:
    make_actual(WHEN)
    chain = advanced(start())
    end_request(chain, "skim")

    advanced(chain)
    advanced(chain)

    assert statuses(chain) == {"skim": "finished", "extra": "skipped"}
    assert chain.status == ChainStatus.FINISHED


def test_required_input_that_is_null_holds_the_chain_with_step_input_and_cure() -> None:
    text = LINEAR.replace("in: {data: skim/out}", "in: {data: skim/out}\n    when: $(1 > 2)")
    make_actual(text)
    chain = advanced(start())
    end_request(chain, "skim")

    advanced(chain)

    assert chain.status == ChainStatus.HELD
    assert chain.hold_evidence is not None
    evidence = chain.hold_evidence["steps"][0]
    assert (evidence["step"], evidence["input"]) == ("join", "data")
    assert "default" in evidence["remedy"]
    (why,) = chain_why(chain, now=timezone.now()).steps
    assert (why.step, why.reason) == ("join", "join: input data is null")
    assert why.remedy.startswith("Skip the step, or cancel the chain. In a new version of the template: Give")


def test_output_without_a_value_holds_the_chain_and_is_explained() -> None:
    make_actual(WHEN.replace("[extra/out, skim/out]", "[skim/out, skim/out]").replace("first_", "the_only_"))
    chain = advanced(start())
    end_request(chain, "skim")
    advanced(advanced(chain))

    (why,) = chain_why(chain, now=timezone.now()).steps

    assert chain.status == ChainStatus.HELD
    assert (why.step, why.status, why.remedy) == ("", "held", "Cancel the chain")
    assert why.reason == "output result: 2 sources of result are not null, one is expected"


def test_refused_request_holds_its_step_and_does_not_run() -> None:
    make_actual()
    chain = start()
    make_request(request_name=chain.steps.get(step="skim").request_name)

    advanced(chain)
    advanced(chain)

    assert chain.status == ChainStatus.HELD
    assert statuses(chain)["skim"] == "held"
    assert Request.objects.count() == 1, "the one that has its name"


def test_step_does_not_run_while_its_request_cannot_be_stored(monkeypatch: pytest.MonkeyPatch) -> None:
    make_actual()
    chain = start()

    def away(**_: object) -> None:
        raise ServiceUnavailable("ReqMgr2 is away")

    with monkeypatch.context() as broken:
        broken.setattr(starting, "import_request", away)
        advanced(chain)

    assert (statuses(chain)["skim"], chain.status) == ("defined", ChainStatus.DEFINED)
    assert "ReqMgr2 is away" in chain.last_error
    assert set(chain.datasets.values_list("status", flat=True)) <= {"planned", "complete"}
    advanced(chain)
    assert (statuses(chain)["skim"], chain.last_error) == ("running", "")


def test_restarted_request_is_followed() -> None:
    make_actual()
    chain = advanced(start())
    old = chain.steps.get(step="skim").request
    assert old is not None
    end_request(chain, "skim", RequestStatus.FAILED)
    advanced(chain)
    workflow = make_workflow(output_datasets=["/Muons/Run2031A-Again-v2/AOD"])
    new = Request.objects.create(
        request_name=workflow.request_name, workflow=workflow, request_data={}, requestor="ana",
        status=RequestStatus.COMPLETED, status_since=timezone.now(), previous_version=old,
    )  # fmt: skip

    assert wake_chains() == 1
    advanced(chain)

    assert statuses(chain)["skim"] == "finished"
    assert chain.steps.get(step="skim").request == new
    slim = chain.steps.get(step="slim").request
    assert slim is not None
    assert slim.workflow.input_dataset == "/Muons/Run2031A-Again-v2/AOD"


def test_sweep_wakes_only_chains_with_changed_requests() -> None:
    make_actual()
    quiet, loud = advanced(start("1")), advanced(start("2"))
    assert claim_chains() == []

    end_request(loud, "skim")

    assert [claim.id for claim in claim_chains()] == [loud.pk]
    assert quiet.pk != loud.pk


def test_chain_keeps_the_version_it_began_with() -> None:
    first = make_actual()
    chain = advanced(start())
    second = make_actual(LINEAR.replace("slim", "thin"))
    end_request(chain, "skim")

    advanced(chain)

    first.refresh_from_db()
    assert (first.status, second.status, second.version) == ("archived", "actual", 2)
    assert "slim" in statuses(chain)
    assert Chain.objects.get(pk=start("2").pk).template == second


def test_steps_of_an_inner_workflow_run_like_others() -> None:
    text = f"""
cwlVersion: v1.2
class: Workflow
$namespaces: {{wms2: "https://wms2.example.org/cwl#"}}
requirements: {{SubworkflowFeatureRequirement: {{}}}}
inputs: {{data: Directory}}
steps:
  outer:
    in: {{data: data}}
    out: [out]
    run:
      class: Workflow
      inputs: {{data: Directory}}
      steps:
        skim:
          in: {{data: data}}
          out: [out]
          run: {tool().replace(chr(10), chr(10) + "      ")}
      outputs: {{out: {{type: Directory, outputSource: skim/out}}}}
outputs: {{result: {{type: Directory, outputSource: outer/out}}}}
"""
    make_actual(text)
    chain = advanced(start())

    assert statuses(chain) == {"outer/skim": "running"}
    assert chain.datasets.get(port="out").role == DatasetRole.FINAL
    end_request(chain, "outer/skim")
    assert advanced(chain).status == ChainStatus.FINISHED
