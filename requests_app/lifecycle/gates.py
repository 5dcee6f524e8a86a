"""The gates a request passes: each says pass or block, on what evidence, since when, and what would help.

The lifecycle stops at the first gate of `ASKED` that blocks, with its words; `/why` prints the same table,
so what people read is what decided. A gate reads; it never changes anything.
"""

from __future__ import annotations

from collections.abc import Callable

from django.db.models import Count, Min

from dags_app.models import MergeGroup
from dags_app.services import locations
from dags_app.services.collecting import describe
from dags_app.services.estimating import current_estimate
from dags_app.services.schedds import all_closed, full_schedds, silent_since
from dags_app.states import LIVE_DAG, DAGStatus, GroupStatus, RoundKind
from outputs_app.models import OutputBlock, RucioRule
from outputs_app.selectors import obstacles
from outputs_app.states import BlockStatus
from requests_app import admission
from requests_app.lifecycle.edits import landings
from requests_app.lifecycle.gate import Gate, Verdict, first_blocking
from requests_app.lifecycle.gate import passed as _passed
from requests_app.lifecycle.look import Look
from requests_app.lifecycle.ownership import announcement, ownership
from requests_app.lifecycle.quota import quota
from requests_app.lifecycle.stalling import hanging_jobs
from requests_app.lifecycle.submit_host import space
from requests_app.states import DORMANT, RequestStatus
from sites_app.configuring import storage_used
from sites_app.models import Site
from wms2_project.tables import check_complete
from wms2_project.waiting import DATA, SCHEDDS, SITES, STORAGE
from wms2_project.words import counted

_B = BlockStatus
SILENT = "schedd"  # the name of the gate at which HTCondor is left alone
COOL_OFF = "cool-off"
MAX_NAMED = 20  # files a gate names; the others are counted
IN_RUCIO = tuple(state for state in _B if state not in (_B.PENDING, _B.ANNOUNCED))


Asked = Callable[[Look], Gate]


def in_the_way(look: Look) -> Gate | None:
    """The first gate of the request's status that blocks; the later ones are not asked."""
    return first_blocking(ask(look) for ask in ASKED[RequestStatus(look.request.status)])


def validation(look: Look) -> Gate:
    """Is it known what the request reads?"""
    request, workflow = look.request, look.workflow
    if workflow.generates:
        return _passed("validation", f"generates {workflow.total_events} events, no input to resolve")
    if workflow.input_resolved_at is not None:
        return _passed("validation", "the input is resolved", resolved_at=workflow.input_resolved_at)
    return Gate(
        "validation",
        Verdict.BLOCK,
        f"the files of {workflow.input_dataset} are not resolved yet",
        {"input_dataset": workflow.input_dataset, "last_error": request.last_error},
        since=request.created_at,
        remedy="It is resolved by itself once DBS and Rucio answer; an unknown dataset needs a new request",
    )


def hold(look: Look) -> Gate:
    """Must a person decide first?"""
    request = look.request
    if request.status not in DORMANT:
        return _passed("hold", "nobody has to decide anything")
    draft = request.status == RequestStatus.NEW
    told = "it is a draft" if draft else request.last_error or "it is held"
    return Gate(
        "hold",
        Verdict.BLOCK,
        told,
        dict(request.hold_evidence or {}),
        since=request.status_since,
        remedy="Submit it" if draft else "Read the evidence, then release it with a change, fail or abort it",
        by_hand=True,
    )


def cooloff(look: Look) -> Gate:
    """Is an error being waited out? Whatever makes the request due, a wake too, ends the wait."""
    request = look.request
    if not request.attempt or request.next_check_at <= look.now:
        return _passed(COOL_OFF, "no error is being waited out", attempt=request.attempt)
    return Gate(
        COOL_OFF,
        Verdict.BLOCK,
        waited_out(request.attempt, request.last_error),
        {"attempt": request.attempt, "last_error": request.last_error, "next_try_at": request.next_check_at},
        since=request.last_error_at,
        remedy="It is tried again by itself; mend what the error names to be sooner",
    )


def waited_out(attempt: int, error: str) -> str:
    """What a request that waits after an error is waiting for."""
    return f"error {attempt} in a row: {error}"


def storage(look: Look) -> Gate:
    """Is there room for outputs at one of the sites at least? A site that says nothing has room."""
    limit = admission.limits().storage_critical_fraction
    told = Site.objects.filter(name__in=look.sites.names).values_list("name", "config_data")
    used = {name: storage_used(data) for name, data in told}
    full = {name: one for name, one in used.items() if one is not None and one > limit}
    if not full or len(full) < len(used):
        return _passed(STORAGE, f"storage has room at {len(used) - len(full)} of {len(used)} sites")
    return Gate(
        STORAGE,
        Verdict.BLOCK,
        f"output storage is above {limit:.0%} at every usable site",
        {"limit": limit, "used": full},
        since=look.request.status_since,
        remedy="Free space, allow another site, or raise storage_critical_fraction",
    )


def data(look: Look) -> Gate:
    """Can a usable site read some of the input that is left? A DAG that is made goes first."""
    workflow = look.workflow
    if workflow.unplaced_since is None:
        return _passed(DATA, "no file waits for a replica")
    waiting = locations.waiting_files(workflow=workflow, sites=look.sites)
    count = waiting.count()
    first = list(waiting.order_by("lfn").values("lfn", "locations")[:MAX_NAMED])
    if not count:
        return _passed(DATA, "no file waits for a replica")
    told = f"no usable site can read {counted(count, 'file')} of the input, the first is {first[0]['lfn']}"
    if _is_made(look) or locations.can_place(workflow=workflow, sites=look.sites):
        return _passed(DATA, f"{told}; the others go first", waiting=count, files=first)
    return Gate(
        DATA,
        Verdict.BLOCK,
        told,
        {"waiting": count, "files": first, "looked_up_at": workflow.located_at},
        since=workflow.unplaced_since,
        remedy="Rucio is asked again by itself; have a replica made, or allow a site that reads one",
    )


def admitted(look: Look) -> Gate:
    """Is it this request's turn?"""
    verdict = look.turn
    if verdict.admitted:
        return _passed(admission.GATE, verdict.why)
    return Gate(
        admission.GATE,
        Verdict.BLOCK,
        verdict.why,
        {"active_dags": verdict.active, "ahead": verdict.ahead},
        since=look.request.status_since,
        remedy="Wait, raise its priority, or raise max_active_dags",
    )


def schedds(look: Look) -> Gate:
    """Does a schedd take a new DAG? One that is sent to a schedd already must be found there first."""
    dag = look.dag if _is_made(look) else None
    if dag is not None and dag.schedd_name and look.request.status != RequestStatus.QUEUED:
        return _passed(SCHEDDS, f"its DAG goes to {dag.schedd_name}")
    full = full_schedds(now=look.now)
    if not full and not all_closed():
        return _passed(SCHEDDS, "a schedd takes new DAGs")
    counts = ", ".join(f"{row.name} runs {row.dagmans_running} of {row.dagmans_allowed}" for row in full)
    return Gate(
        SCHEDDS,
        Verdict.BLOCK,
        f"no schedd has slots for a DAG and one of its groups: {counts} DAGMans"
        if full
        else "every schedd is draining or fenced",
        since=look.request.status_since,
        remedy="Wait until DAGs end, or raise the schedd's limit of running scheduler universe jobs"
        if full
        else "Enable a schedd, or wait until its drain is over",
    )


def sites(look: Look) -> Gate:
    """Is there a site it may use? A DAG that is made has its sites; one that goes on is given them anew."""
    if _is_made(look) and not (look.prepared and look.awaited_site):
        return _passed(SITES, "its DAG is made")
    workflow, names, awaited = look.workflow, look.sites.names, look.awaited_site
    if awaited is not None:
        return Gate(
            SITES,
            Verdict.BLOCK,
            awaited.told,
            {"site": awaited.absence.site, "until": awaited.absence.until, "cause": awaited.absence.cause},
            since=look.request.status_since,
            remedy="Wait, enable the site or lift its ban, or change the request's site lists",
            opens_at=awaited.absence.until,
        )
    if names:
        return _passed(SITES, f"{len(names)} sites may be used", sites=sorted(names)[:50])
    return Gate(
        SITES,
        Verdict.BLOCK,
        "no site may run this request: site lists, drains and bans leave none",
        {"whitelist": workflow.site_whitelist, "blacklist": workflow.site_blacklist},
        since=look.request.status_since,
        remedy="Enable a site, lift a ban, or change the request's site lists",
        by_hand=True,
    )


def memory(look: Look) -> Gate:
    """Does a usable site offer the memory a job needs? Asked before a DAG is made, as for sites."""
    if _is_made(look):
        return _passed("memory", "its DAG is made")
    estimate = current_estimate(look.workflow)
    per_core = estimate.memory_mb / estimate.cores
    fitting = look.sites.offering(per_core)
    told = {
        "memory_mb": estimate.memory_mb,
        "cores": estimate.cores,
        "source": estimate.source_of("memory_mb"),
    }
    if fitting or not look.sites.names:
        return _passed("memory", f"{len(fitting)} sites offer {per_core:.0f} MB per core", **told)
    return Gate(
        "memory",
        Verdict.BLOCK,
        f"no usable site offers {per_core:.0f} MB per core",
        told | {"offered_mb_per_core": dict(look.sites.memory_mb_per_core)},
        since=look.request.status_since,
        remedy="Ask for less memory or more cores, or add a site with larger slots",
        by_hand=True,
    )


def _is_made(look: Look) -> bool:
    return look.dag is not None and look.dag.status in LIVE_DAG


def schedd(look: Look) -> Gate:
    """Does the schedd of its DAG answer? By what monitoring saw last: nobody waits for a silent one here."""
    dag = look.queued_dag
    since = silent_since(dag.schedd_name) if dag is not None else None
    if dag is None or since is None:
        return _passed(SILENT, "no schedd is waited for" if dag is None else f"{dag.schedd_name} answers")
    return Gate(
        SILENT,
        Verdict.BLOCK,
        f"{dag.schedd_name} does not answer; what runs there goes on unseen",
        {"schedd": dag.schedd_name, "last_seen": dag.observed_at},
        since=since,
        remedy="Restart the schedd or wait: nothing is concluded from its silence; fence it if it is lost",
    )


def held_jobs(look: Look) -> Gate:
    """Do jobs sit on hold in HTCondor?"""
    dag = look.queued_dag
    if dag is None or not (dag.nodes_held or dag.status == DAGStatus.HALTED):
        return _passed("held jobs", "no job is on hold in HTCondor")
    whole = dag.status == DAGStatus.HALTED
    return Gate(
        "held jobs",
        Verdict.BLOCK,
        "the DAG is on hold" if whole else f"{dag.nodes_held} jobs are on hold in HTCondor",
        {"dag": dag.token, "held": dag.nodes_held},
        since=dag.observed_at or dag.submitted_at,
        remedy="Release the DAG" if whole else "Their hold reasons tell; they become failures by themselves",
    )


def throttle(look: Look) -> Gate:
    """Do groups wait because only so many may run at a time? DAGMan keeps them; this gate says so."""
    dag, limits = look.queued_dag, look.workflow.category_throttles
    limit = int(limits.get("MergeGroup", 0))
    left = look.groups.get(GroupStatus.PLANNED, 0) if dag is not None and limit else 0
    if dag is None or left <= limit:
        return _passed("throttle", f"{limit or 'any number of'} groups may run at a time")
    return Gate(
        "throttle",
        Verdict.BLOCK,
        f"{limit} groups run at a time, {left - limit} wait their turn",
        {"limits": limits, "groups_left": left},
        since=dag.submitted_at,
        remedy="Wait: this spreads the groups over the sites; raise the MergeGroup throttle for the next DAG",
    )


def running(look: Look) -> Gate:
    """Has its DAG ended? Until then nothing that comes after can be decided."""
    dag, stopping = look.dag, look.request.status == RequestStatus.STOPPING
    if dag is None or not (_is_made(look) if stopping else look.queued_dag):
        return _passed("running", "no DAG is in the queue")
    if stopping:
        told = "jobs are leaving the queue"
    elif dag.round.kind == RoundKind.PILOT:
        told = "the pilot is running"
    else:
        told = describe(round_=dag.round, groups=look.groups)
        told += obstacles(workflow=look.workflow, trouble=look.trouble)
    return Gate(
        "running",
        Verdict.BLOCK,
        told,
        {"dag": dag.token, "status": dag.status},
        since=dag.submitted_at or dag.created_at,
        remedy="Wait; /progress says how far it is",
    )


def stage_out(look: Look) -> Gate:
    """Are the outputs of every finished group in our tables?"""
    waiting = MergeGroup.objects.filter(round__workflow=look.workflow, status=GroupStatus.DONE)
    found = waiting.aggregate(groups=Count("id"), since=Min("finished_at"))
    if not found["groups"]:
        return _passed("stage-out", "the outputs of all finished groups are collected")
    return Gate(
        "stage-out",
        Verdict.BLOCK,
        f"the outputs of {counted(found['groups'], 'finished group')} are not collected yet",
        {"groups": found["groups"], "last_error": look.request.last_error},
        since=found["since"],
        remedy="They are collected by themselves; a damaged manifest is named in the error",
    )


def dbs(look: Look) -> Gate:
    """Is every block registered?"""
    return _blocks(look, "dbs", (_B.PENDING,), "registered in DBS", "DBS")


def rucio(look: Look) -> Gate:
    """Is every block protected, copied and announced?"""
    gate = _blocks(look, "rucio", IN_RUCIO, "protected, copied and announced", "Rucio")
    rules = RucioRule.objects.filter(
        block__dataset__workflow=look.workflow, block__status__in=IN_RUCIO, deleted_at__isnull=True
    ).exclude(state__in=["", "OK"])
    stuck = list(rules.values("rule_id", "state", "rse_expression", "created_at").order_by("created_at")[:5])
    if not gate.blocks or not stuck:
        return gate
    first = stuck[0]
    told = f"waiting for Rucio rule {first['rule_id']} to {first['rse_expression']}, {first['state']}"
    return Gate(
        "rucio",
        Verdict.BLOCK,
        told,
        gate.evidence | {"rules": stuck},
        since=first["created_at"],
        remedy="A stuck rule is boosted by itself; Rucio's operators know what keeps it",
    )


def _blocks(look: Look, name: str, states: tuple[_B, ...], what: str, service: str) -> Gate:
    rows = OutputBlock.objects.filter(dataset__workflow=look.workflow, status__in=states)
    found = rows.aggregate(blocks=Count("id"), since=Min("status_since"))
    if not found["blocks"]:
        return _passed(name, f"no block waits to be {what}")
    failing = (
        rows.exclude(last_error="").order_by("-last_error_at").values("block_name", "last_error").first()
    )
    counts = dict(rows.order_by().values_list("status").annotate(n=Count("id")))
    told = f"{found['blocks']} blocks are not {what} yet"
    return Gate(
        name,
        Verdict.BLOCK,
        f"{told}: {failing['last_error']}" if failing else told,
        {"blocks": counts, "failing": failing},
        since=found["since"],
        remedy=f"It goes on by itself when {service} answers" if failing else "It goes on by itself",
    )


SUBMISSION: tuple[Asked, ...] = (space, schedds)
PLACEMENT: tuple[Asked, ...] = (sites, memory)
SHARED: tuple[Asked, ...] = (quota, admitted)  # last: they depend on others and are asked under a lock
RUNNING: tuple[Asked, ...] = (schedd, held_jobs, hanging_jobs, landings, throttle, running)
OUTPUTS: tuple[Asked, ...] = (stage_out, ownership, dbs, rucio)
ALWAYS: tuple[Asked, ...] = (hold, cooloff)
_S = RequestStatus
# Which gates stand in the way in which status, in the order in which the lifecycle meets them.
ASKED: dict[RequestStatus, tuple[Asked, ...]] = {
    _S.NEW: (hold,),
    _S.SUBMITTED: (*ALWAYS, ownership, validation),
    _S.QUEUED: (*ALWAYS, ownership, validation, storage, *SUBMISSION, *PLACEMENT, data, *SHARED),
    _S.PILOT_RUNNING: (*ALWAYS, *SUBMISSION, *RUNNING, *PLACEMENT),
    _S.PLANNING: (*ALWAYS, *SUBMISSION, *PLACEMENT, quota),
    _S.ACTIVE: (*ALWAYS, *RUNNING, *OUTPUTS, data),
    _S.PARTIAL: ALWAYS,
    _S.STOPPING: (*ALWAYS, schedd, running),
    _S.RESUBMITTING: ALWAYS,
    # After the hold: what a release would meet
    _S.HELD: (*ALWAYS, validation, data, *PLACEMENT, quota, *OUTPUTS),
    _S.COMPLETED: (announcement,),
    _S.FAILED: (),
    _S.ABORTED: (),
}
check_complete("ASKED", ASKED, _S)
