"""B19, B20 and B21: sweeping chains, starting the next step, masks and wiring."""

from __future__ import annotations

import time
from datetime import timedelta
from statistics import median
from typing import Any

from django.conf import settings
from django.utils import timezone

from benchmarks.database import databases
from benchmarks.harness import Measured, percentile
from benchmarks.rows import add_requests, first_request
from benchmarks.run import Run
from chains_app import masks
from chains_app.cwl.types import Link, Port, Step, Tool, ToolOutput, Workflow, to_json
from chains_app.cwl.wiring import wire
from chains_app.models import Announcement, Chain, ChainStep, Template
from chains_app.services.advancing import advance_chain
from chains_app.services.generating import generate_chain
from chains_app.services.sweeping import claim_chains
from chains_app.states import ChainStatus, StepStatus
from dags_app.adapters import use_adapters
from requests_app.models import Request
from requests_app.states import RequestStatus

CHAINS, NEWS = 10_000, 0.01
STEPS = 200  # next steps timed by B20
RAW = "/Muons/Run2031A-v1/RAW"
MASKS, CALLS = 1000, 1000
MASK_MS, WIRE_SEC = 20.0, 1.0  # the bars of B21; its moonshots are a tenth and a fifth of them
DATASET = ("Directory",)


class _Dbs:
    """DBS in memory that has every input dataset, complete, and no output. Its calls are not measured."""

    def dataset(self, name: str) -> Any:
        return type("Info", (), {"access_type": "VALID"})()

    def open_blocks(self, name: str) -> frozenset[str]:
        return frozenset()

    def content(self, name: str) -> None:
        return None


def _template() -> Template:
    """Return a template with two steps, of which the second reads the output of the first."""
    document: dict[str, Any] = {"payload_config": {"kind": "merge"}, "splitting_algo": "FileBased"}
    tool = Tool((Port("data", DATASET),), (ToolOutput("out", DATASET),), document)
    workflow = Workflow(
        inputs=(Port("data", DATASET),),
        steps=(
            Step("skim", (Link("data", ("data",)),), ("out",), tool=tool),
            Step("slim", (Link("data", ("skim/out",)),), ("out",), tool=tool),
        ),
        outputs=(Link("result", ("slim/out",)),),
    )
    return Template.objects.create(
        name="bench", version=1, status="actual", status_since=timezone.now(), document="",
        created_by="user:ana", workflow=to_json(workflow),
    )  # fmt: skip


def sweep_chains(run: Run) -> Measured:
    """B19: one sweep over many running chains, which ends when the one percent with news are claimed."""
    count = run.size(CHAINS, 300)
    made = databases(run)
    name = made.copy("chains")
    made.use(name)
    with made.connect(name) as server:
        add_requests(server, first_request(status=RequestStatus.ACTIVE), count=count - 1)
        _add_running_chains(count)
        server.execute("VACUUM ANALYZE")
    news = list(
        Request.objects.order_by("created_at").values_list("pk", flat=True)[: max(int(count * NEWS), 1)]
    )
    taken = []
    for _ in range(run.repeat):
        Request.objects.filter(pk__in=news).update(status=RequestStatus.COMPLETED)
        later = timezone.now() + timedelta(hours=1)
        Chain.objects.update(next_check_at=later, owner="", heartbeat_at=None)
        began = time.perf_counter()
        claimed = claim_chains()
        taken.append(time.perf_counter() - began)
        assert len(claimed) == len(news), (len(claimed), len(news))
        Request.objects.filter(pk__in=news).update(status=RequestStatus.ACTIVE)
    return Measured(median(taken), {"sweep": taken}, note=f"{count} running chains, {len(news)} with news")


def _add_running_chains(count: int) -> None:
    now, template = timezone.now(), _template()
    uids = range(count)
    announced = Announcement.objects.bulk_create(
        [Announcement(uid=str(uid), dataset_name=RAW, actor="user:ana", status="matched") for uid in uids]
    )
    chains = Chain.objects.bulk_create(
        Chain(
            template=template,
            announcement=one,
            inputs={"data": RAW},
            status=ChainStatus.RUNNING,
            status_since=now,
        )
        for one in announced
    )
    requests = list(Request.objects.order_by("created_at")[:count])
    ChainStep.objects.bulk_create(
        ChainStep(chain=chain, step="skim", status=StepStatus.RUNNING, status_since=now, request=request,
                  request_name=request.request_name)
        for chain, request in zip(chains, requests, strict=True)
    )  # fmt: skip
    ChainStep.objects.bulk_create(
        ChainStep(chain=chain, step="slim", status_since=now, request_name=f"slim_{chain.pk}")
        for chain in chains
    )


def start_next_steps(run: Run) -> Measured:
    """B20: from the completion of a producer to the stored request of the next step, at the sweep's pace."""
    count = run.size(STEPS, 5)
    made = databases(run)
    made.use(made.copy("steps"))
    taken: list[float] = []
    with use_adapters(dbs=_Dbs()):
        template = _template()
        chains = [_started(template, number) for number in range(count)]
        for number, chain in enumerate(chains):
            began = time.perf_counter()
            Request.objects.filter(request_name__contains=f"skim_c{chain.pk}").update(
                status=RequestStatus.COMPLETED
            )
            # the sweep runs at fixed times, so a completion waits for it anywhere between 0 and its interval
            waits = settings.CHAIN_SWEEP_INTERVAL_SEC * (number + 0.5) / count
            for claim in claim_chains():
                advance_chain(str(claim.id))
            taken.append(time.perf_counter() - began + waits)
            assert chain.steps.filter(step="slim", request__isnull=False).exists()
    note = f"{count} steps, sweep every {settings.CHAIN_SWEEP_INTERVAL_SEC:g} s"
    return Measured(percentile(taken, 99), {"seconds": taken}, note=note)


def _started(template: Template, number: int) -> Chain:
    announcement = Announcement.objects.create(
        uid=str(number), dataset_name=RAW, actor="user:ana", status="matched"
    )
    chain = generate_chain(template=template, announcement=announcement, inputs={"data": RAW})
    advance_chain(chain.pk)
    return chain


def match_and_wire(run: Run) -> Measured:
    """B21: one name against many masks, and the wiring of a large scatter, as shares of their bars."""
    count, calls = run.size(MASKS, 100), run.size(CALLS, 100)
    table = {
        number: f"^/Primary{number}_[A-Z]+/Run20[0-9]{{2}}[A-D]-.*-v[0-9]+/(RAW|AOD)$"
        for number in range(count)
    }
    masks.matching(table, RAW)  # compiled once per process
    matched = [_seconds(lambda: masks.matching(table, RAW)) * 1000 for _ in range(run.repeat)]
    wired = [_seconds(lambda: _wire(calls)) for _ in range(run.repeat)]
    half = [_seconds(lambda: _wire(calls // 2)) for _ in range(run.repeat)]
    growth = median(wired) / median(half)
    assert run.quick or growth < 3, f"twice the calls take {growth:.1f} times as long"
    value = max(median(matched) / MASK_MS, median(wired) / WIRE_SEC)
    note = f"{median(matched):.2f} ms and {median(wired):.3f} s; twice the calls take {growth:.1f}×"
    return Measured(value, {"masks_ms": matched, "wiring": wired, "half": half}, note=note)


def _wire(calls: int) -> None:
    workflow = Workflow(
        inputs=(Port("data"), Port("runs")),
        steps=(
            Step(
                "skim", (Link("data", ("data",)), Link("run", ("runs",), value_from="r$(self)")),
                ("out", "events"), scatter=("run",), when="$(inputs.data != null)",
            ),
            Step("join", (Link("data", ("skim/out",), pick_value="all_non_null"),
                          Link("events", ("skim/events",), aggregate="sum")), ("out",)),
        ),
        outputs=(Link("result", ("join/out",)),),
    )  # fmt: skip
    inputs = {"data": RAW, "runs": list(range(calls))}
    found = wire(workflow, inputs, lambda step, index: {"out": "x", "events": 1}, max_calls=calls + 1)
    assert (len(found.calls), found.complete) == (calls + 1, True)


def _seconds(act: Any) -> float:
    began = time.process_time()
    act()
    return time.process_time() - began
