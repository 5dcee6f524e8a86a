"""Requests that wait at a gate: one situation per gate, and what opens it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from django.conf import settings as django_settings
from django.utils import timezone

from dags_app.models import DAG, DAGEvent, JobToken, MergeGroup, Schedd, SecondaryDataset, Workflow
from dags_app.services.schedds import drain_schedd, enable_schedd, note_answer
from dags_app.states import DAGStatus, GroupStatus
from outputs_app.models import OutputBlock, RucioRule
from outputs_app.states import BlockStatus, RuleKind
from requests_app import admission
from requests_app.lifecycle.advance import advance
from requests_app.models import Request
from requests_app.services.alerts import close_alerts, raise_alert
from requests_app.services.owning import share_outputs
from requests_app.services.quotas import change_quota
from requests_app.services.releasing import release_request
from requests_app.states import RequestStatus
from sites_app.models import Site
from tests.integration.factories import (
    ago,
    make_block,
    make_claim,
    make_dag,
    make_file,
    make_group,
    make_request,
    make_round,
    make_secondary,
)
from wms2_project.leases import wake

S = RequestStatus
QUOTA = {"scope": "requestor", "name": "ana", "actor": "user:olga", "reason": "test"}


def resolved(status: RequestStatus, **values: Any) -> Request:
    row = make_request(status=status, **values)
    know_input(row)
    row.workflow.refresh_from_db()
    return row


def know_input(row: Request) -> None:
    Workflow.objects.filter(pk=row.workflow_id).update(input_resolved_at=ago(days=1), memory_mb=2000)


def foreign() -> Request:
    row = resolved(S.SUBMITTED)
    claim = make_claim(row.workflow, row.workflow.output_datasets[0])
    claim.checked_at, claim.conflict = timezone.now(), f"{claim.dataset_name} is in DBS as VALID"
    claim.save()
    return row


def allow(row: Request) -> None:
    row.refresh_from_db()
    share_outputs(request=row, actor="user:olga", reason="agreed", now=timezone.now())
    release(row)


def unresolved() -> Request:
    return make_request(status=S.SUBMITTED)


def unconfigured() -> Request:
    """Return a CMSSW request whose input is resolved, while no ConfigCache is configured."""
    row = resolved(S.SUBMITTED)
    step = {"name": "RECO", "release": "CMSSW_14_0_0", "arch": "el8_amd64_gcc12", "config_id": "cfg-1"}
    payload = {"kind": "cmssw", "cmssw": {"steps": [step]}}
    Workflow.objects.filter(pk=row.workflow_id).update(payload_config=payload)
    return row


def configure(row: Request) -> None:
    Workflow.objects.filter(pk=row.workflow_id).update(payload_config={"kind": "toy"})
    wake(Request.objects.filter(pk=row.pk))


def failing() -> Request:
    row = unresolved()
    advance(row.pk)  # the address of DBS is not set
    return row


def wake_resolved(row: Request) -> None:
    know_input(row)
    wake(Request.objects.filter(pk=row.pk))


def hanging() -> Request:
    row = running()
    raise_alert(request=row, kind="jobs_hanging", message="1 job hanging in mg_000001")
    return row


def end_hang(row: Request) -> None:
    close_alerts(request=row, kind="jobs_hanging")


def held() -> Request:
    return resolved(S.HELD, last_error="no site", hold_evidence={"ratio": 0.4})


def release(row: Request) -> None:
    row.refresh_from_db()
    release_request(request=row, actor="user:olga", reason="fixed", now=timezone.now())


def full() -> Request:
    row = resolved(S.QUEUED)
    Site.objects.update(config_data={"storage_used_fraction": 0.97})
    return row


def free(row: Request) -> None:
    Site.objects.update(config_data={"storage_used_fraction": 0.5})


def without_data() -> Request:
    row = resolved(S.QUEUED)
    make_file(row.workflow, locations=["T1_XX_Tape"])
    Workflow.objects.filter(pk=row.workflow_id).update(unplaced_since=ago(hours=1))
    return row


def replicate(row: Request) -> None:
    row.workflow.input_files.update(locations=["T2_CH_CERN"])


def without_pileup() -> Request:
    make_secondary("/Pileup/Era-v1/PREMIX", places=[[["T2_DE_DESY"], 1]])
    row = resolved(S.QUEUED)
    Workflow.objects.update(secondary_input_datasets=["/Pileup/Era-v1/PREMIX"])
    return row


def replicate_pileup(row: Request) -> None:
    SecondaryDataset.objects.update(places=[[["T2_CH_CERN", "T2_DE_DESY"], 1]])


def limit(**changes: Any) -> None:
    admission.change_limits(changes=changes, actor="user:olga", reason="test")


def queued_behind() -> Request:
    limit(max_active_dags=1)
    make_request(status=S.ACTIVE)
    return resolved(S.QUEUED)


def paused() -> Request:
    limit(paused=True, pause_reason="power cut")
    return resolved(S.QUEUED)


def over_quota() -> Request:
    row = running()
    change_quota(**QUOTA, changes={"queued_jobs": row.workflow.rounds.get().jobs - 1})
    DAG.objects.update(nodes_done=0)
    return resolved(S.QUEUED)


def raise_quota(row: Request) -> None:
    change_quota(**QUOTA, changes={"queued_jobs": 1000})


def draining() -> Request:
    drain_schedd(name="a@pool", actor="user:olga", reason="kernel")
    return resolved(S.QUEUED)


def nowhere() -> Request:
    row = resolved(S.PLANNING)
    Site.objects.update(status="draining")
    return row


def enable_sites(row: Request) -> None:
    Site.objects.update(status="enabled")
    release(row)


def large() -> Request:
    row = resolved(S.QUEUED)
    Site.objects.update(thresholds={"memory_mb_per_core": 1500})
    return row


def enlarge_slots(row: Request) -> None:
    Site.objects.update(thresholds={})
    release(row)


def running(**values: Any) -> Request:
    row = resolved(S.ACTIVE)
    Workflow.objects.filter(pk=row.workflow_id).update(category_throttles={"MergeGroup": 2})
    make_file(row.workflow)
    round_ = make_round(row.workflow)
    make_dag(round_, schedd_name="a@pool", applied_version=row.workflow.version, **values)
    make_group(round_)
    make_group(round_)
    return row


def end_dag(row: Request) -> None:
    DAG.objects.update(status=DAGStatus.COMPLETED)


def on_silent_schedd() -> Request:
    Schedd.objects.create(name="a@pool", silent_since=ago(minutes=7))
    return running()


def stranded() -> Request:
    row = running()
    note_edit(["mg_000001"])
    return row


def note_edit(groups: list[str]) -> None:
    DAGEvent.objects.create(
        dag=DAG.objects.get(), event_type="edited", detail={"landings_without_site": groups}
    )


def place_groups(row: Request) -> None:
    note_edit([])


def throttled() -> Request:
    row = running()
    make_group(row.workflow.rounds.get())
    return row


def end_group(row: Request) -> None:
    MergeGroup.objects.filter(index=0).update(status=GroupStatus.COLLECTED)


def release_jobs(row: Request) -> None:
    DAG.objects.update(nodes_held=0, status=DAGStatus.RUNNING)


def uncollected() -> Request:
    row, _ = with_block(BlockStatus.ANNOUNCED)
    make_group(row.workflow.rounds.get(), status=GroupStatus.DONE, finished_at=ago(hours=1))
    return row


def collect(row: Request) -> None:
    MergeGroup.objects.update(status=GroupStatus.COLLECTED)


def with_block(status: BlockStatus, **values: Any) -> tuple[Request, Any]:
    row = resolved(S.ACTIVE)
    group = make_group(make_round(row.workflow, status="resolved"), status=GroupStatus.COLLECTED)
    return row, make_block(group, status=status, **values)


def unregistered() -> Request:
    return with_block(BlockStatus.CHECKED, last_error="DBS: 503", last_error_at=ago(minutes=1))[0]


def unchecked() -> Request:
    failing = {"last_error": "the storage of T1_US_FNAL is down", "last_error_at": ago(minutes=1)}
    return with_block(BlockStatus.PENDING, **failing)[0]


def stuck() -> Request:
    row, block = with_block(BlockStatus.TRANSFERRING)
    RucioRule.objects.create(
        block=block, kind=RuleKind.TRANSFER, rse_expression="tier=1", rule_id="r1", state="STUCK"
    )
    return row


def announce(row: Request) -> None:
    OutputBlock.objects.update(status=BlockStatus.ANNOUNCED)


def need(free_bytes: int) -> None:
    django_settings.MIN_FREE_BYTES = free_bytes  # the test's own settings


def short_of_space() -> Request:
    need(2**62)
    return resolved(S.QUEUED)


def without_token() -> Request:
    django_settings.TOKEN_ISSUER = "https://issuer.example.org"  # the test's own settings
    row = resolved(S.QUEUED)
    JobToken.objects.create(workflow=row.workflow, error="it does not answer", failing_since=ago(minutes=9))
    return row


def renew_token(row: Request) -> None:
    JobToken.objects.update(error="", failing_since=None)


@dataclass(frozen=True)
class Case:
    """A gate that blocks: the situation, its text, the action that opens it, and the next status."""

    gate: str
    situation: Callable[[], Request]
    words: str
    open: Callable[[Request], object]
    then: tuple[str, str]  # the status, and the gate it stops at next if it stays there


MOVED = ("pilot_running", "")
RUNS = ("active", "running")
HOLDING = ("ownership", "sites", "memory")  # only a person can open these
TRIED = ("configuration", "validation")  # planning retries; the gate shows the error of the last attempt
CASES = [
    Case("hold", held, "no site", release, MOVED),
    Case("cool-off", failing, "error 1 in a row: dbs_url is not set", wake_resolved, ("queued", "")),
    Case("ownership", foreign, "is in DBS as VALID", allow, MOVED),
    Case("validation", unresolved, "dbs_url is not set", wake_resolved, ("queued", "")),
    Case("configuration", unconfigured, "config_cache_url is not set", configure, ("queued", "")),
    Case("data", without_data, "no usable site can read 1 input file", replicate, MOVED),
    Case("admission", queued_behind, "1/1, position 1", lambda row: limit(max_active_dags=9), MOVED),
    Case("admission", paused, "power cut", lambda row: limit(paused=False), MOVED),
    Case("quota", over_quota, "requestor ana: 4 of 3 queued jobs", raise_quota, MOVED),
    Case("space", short_of_space, "has too little free space", lambda row: need(0), MOVED),
    Case("credential", without_token, "no token for jobs: it does not answer", renew_token, MOVED),
    Case("storage", full, "above 95%", free, MOVED),
    Case("schedds", draining, "is draining", lambda row: enable_schedd(
        name="a@pool", actor="user:olga", reason="done"), MOVED),
    Case("sites", nowhere, "no usable site", enable_sites, MOVED),
    Case("pileup", without_pileup, "no usable site holds the secondary dataset", replicate_pileup, MOVED),
    Case("memory", large, "2000 MB per core", enlarge_slots, MOVED),
    Case("schedd", on_silent_schedd, "a@pool does not answer",
         lambda row: note_answer("a@pool", now=timezone.now()), RUNS),
    Case("held jobs", lambda: running(nodes_held=2), "2 jobs on hold", release_jobs, RUNS),
    Case("held jobs", lambda: running(status=DAGStatus.HALTED), "the DAG is on hold", release_jobs, RUNS),
    Case("hanging jobs", hanging, "1 job hanging", end_hang, RUNS),
    Case("landings", stranded, "1 group without a usable site", place_groups, RUNS),
    Case("throttle", throttled, "at most 2 groups run at a time; 1 group waiting", end_group, RUNS),
    Case("running", running, "round 0: 0 of 2 groups done", end_dag, ("queued", "")),
    Case("stage-out", uncollected, "1 finished group", collect, ("completed", "")),
    Case("output check", unchecked, "not checked on the storage yet", announce, ("completed", "")),
    Case("dbs", unregistered, "DBS: 503", announce, ("completed", "")),
    Case("rucio", stuck, "rule r1 to tier=1, STUCK", announce, ("completed", "")),
]  # fmt: skip
