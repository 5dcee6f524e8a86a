"""The gates of the lifecycle. Each returns pass or block with evidence, start time and remedy.

The lifecycle stops at the first blocking gate of `ASKED` and shows its detail. `/why` evaluates the
same table, so both always agree. Gates only read.
"""

from __future__ import annotations

from collections.abc import Callable

from dags_app.planning.configurations import is_pinned, needed_configurations
from dags_app.pull.rounds import describe_round
from dags_app.services import locations
from dags_app.services.estimating import current_estimate
from dags_app.services.manifests import describe
from dags_app.services.schedds import all_closed, full_schedds
from dags_app.services.secondary import unresolved
from dags_app.states import LIVE_DAG, DAGStatus, GroupStatus, RoundKind
from outputs_app.selectors import obstacles
from outputs_app.states import BlockStatus
from requests_app import admission
from requests_app.lifecycle.credential_gate import credential
from requests_app.lifecycle.dag_edits import landings
from requests_app.lifecycle.gate_result import Gate, Verdict, first_blocking
from requests_app.lifecycle.gate_result import passed as _passed
from requests_app.lifecycle.output_gates import dbs, output_check, rucio, stage_out
from requests_app.lifecycle.ownership_gates import announcement, ownership
from requests_app.lifecycle.pileup_gate import pileup
from requests_app.lifecycle.pulling import places
from requests_app.lifecycle.quota_gate import quota
from requests_app.lifecycle.snapshot import Snapshot
from requests_app.lifecycle.stalling import hanging_jobs
from requests_app.lifecycle.submit_host_gate import space
from requests_app.states import DORMANT, RequestStatus
from sites_app.models import Site
from sites_app.services.site_settings import storage_used
from wms2_project.tables import check_complete
from wms2_project.wakeups import DATA, SCHEDDS, SITES, STORAGE
from wms2_project.words import counted

_B = BlockStatus
SILENT = "schedd"  # name of the gate that blocks while the schedd is unreachable
COOL_OFF = "cool-off"
CONFIGURATION = "configuration"
MAX_NAMED = 20  # files listed in the evidence; the rest is only counted
Asked = Callable[[Snapshot], Gate]


def blocking_gate(snapshot: Snapshot) -> Gate | None:
    """Return the first blocking gate of the request's status, or None."""
    return first_blocking(ask(snapshot) for ask in ASKED[RequestStatus(snapshot.request.status)])


def validation(snapshot: Snapshot) -> Gate:
    """Block until the input files are resolved."""
    request, workflow = snapshot.request, snapshot.workflow
    waiting = unresolved(workflow=workflow)
    if workflow.has_ledger and workflow.input_resolved_at is None:
        waiting = [*(workflow.input_datasets or ["the input"]), *waiting]
    if not waiting and not workflow.has_ledger:
        return _passed("validation", f"the request generates {workflow.total_events} events and has no input")
    if not waiting:
        return _passed("validation", "the input is resolved", resolved_at=workflow.input_resolved_at)
    return Gate(
        "validation",
        Verdict.BLOCK,
        f"the files of {waiting[0]} have not been resolved yet",
        {"datasets": waiting, "last_error": request.last_error},
        since=request.created_at,
        remedy="Wait until DBS and Rucio answer. If the dataset does not exist, submit a new request",
    )


def configuration(snapshot: Snapshot) -> Gate:
    """Block until the configurations of a CMSSW request are fetched."""
    request, workflow = snapshot.request, snapshot.workflow
    needed = needed_configurations(workflow.payload_config)
    if is_pinned(workflow.payload_config):
        return _passed(
            CONFIGURATION, f"{counted(len(needed), 'configuration')} fetched", config_cache_ids=needed
        )
    return Gate(
        CONFIGURATION,
        Verdict.BLOCK,
        f"{counted(len(needed), 'configuration')} to fetch from the ConfigCache: {', '.join(needed[:3])}",
        {"config_cache_ids": needed, "last_error": request.last_error},
        since=request.created_at,
        remedy="Wait until the ConfigCache answers. If a ConfigCacheID does not exist, submit a new request",
    )


def hold(snapshot: Snapshot) -> Gate:
    """Block while an operator's decision is needed."""
    request = snapshot.request
    if request.status not in DORMANT:
        return _passed("hold", "no decision is needed")
    draft = request.status == RequestStatus.NEW
    message = "the request is a draft" if draft else request.last_error or "the request is held"
    return Gate(
        "hold",
        Verdict.BLOCK,
        message,
        dict(request.hold_evidence or {}),
        since=request.status_since,
        remedy="Submit the draft" if draft else "Read the evidence, then release, fail or abort the request",
        needs_operator=True,
    )


def cooloff(snapshot: Snapshot) -> Gate:
    """Block while the request waits for a retry after an error. A wake ends the wait."""
    request = snapshot.request
    if not request.attempt or request.next_check_at <= snapshot.now:
        return _passed(COOL_OFF, "no retry is pending", attempt=request.attempt)
    return Gate(
        COOL_OFF,
        Verdict.BLOCK,
        describe_retry(request.attempt, request.last_error),
        {"attempt": request.attempt, "last_error": request.last_error, "next_try_at": request.next_check_at},
        since=request.last_error_at,
        remedy="Wait for the automatic retry, or fix the cause named in the error",
    )


def describe_retry(attempt: int, error: str) -> str:
    """Describe the wait after an error."""
    return f"error {attempt} in a row: {error}"


def storage(snapshot: Snapshot) -> Gate:
    """Block while the storage of every usable site is full. Sites that report no usage count as free."""
    limit = admission.limits().storage_critical_fraction
    configs = Site.objects.filter(name__in=snapshot.sites.names).values_list("name", "config_data")
    used = {name: storage_used(data) for name, data in configs}
    full = {name: one for name, one in used.items() if one is not None and one > limit}
    if not full or len(full) < len(used):
        return _passed(STORAGE, f"{len(used) - len(full)} of {len(used)} sites have free output storage")
    return Gate(
        STORAGE,
        Verdict.BLOCK,
        f"output storage is above {limit:.0%} at every usable site",
        {"limit": limit, "used": full},
        since=snapshot.request.status_since,
        remedy="Free space, allow another site, or raise storage_critical_fraction",
    )


def data(snapshot: Snapshot) -> Gate:
    """Block while no usable site can read any of the remaining input. An existing DAG goes first."""
    workflow = snapshot.workflow
    if workflow.pulls:
        return places(snapshot) if not _is_made(snapshot) else _passed(DATA, "the DAG exists already")
    if workflow.unplaced_since is None:
        return _passed(DATA, "every remaining file has a usable replica")
    waiting = locations.waiting_files(workflow=workflow, sites=snapshot.sites)
    count = waiting.count()
    first = list(waiting.order_by("lfn").values("lfn", "locations")[:MAX_NAMED])
    if not count:
        return _passed(DATA, "every remaining file has a usable replica")
    message = f"no usable site can read {counted(count, 'input file')}, the first is {first[0]['lfn']}"
    if _is_made(snapshot) or locations.can_place(workflow=workflow, sites=snapshot.sites):
        return _passed(DATA, f"{message}; the other files are processed first", waiting=count, files=first)
    return Gate(
        DATA,
        Verdict.BLOCK,
        message,
        {"waiting": count, "files": first, "looked_up_at": workflow.located_at},
        since=workflow.unplaced_since,
        remedy="Create a replica, or allow a site that can read one. Rucio is queried again automatically",
    )


def admitted(snapshot: Snapshot) -> Gate:
    """Block until the request is admitted."""
    verdict = snapshot.turn
    if verdict.admitted:
        return _passed(admission.GATE, verdict.why)
    return Gate(
        admission.GATE,
        Verdict.BLOCK,
        verdict.why,
        {"active_dags": verdict.active, "ahead": verdict.ahead},
        since=snapshot.request.status_since,
        remedy="Wait, raise the priority, or raise max_active_dags",
    )


def schedds(snapshot: Snapshot) -> Gate:
    """Block while no schedd accepts a new DAG. A DAG that was already sent to a schedd stays there."""
    dag = snapshot.dag if _is_made(snapshot) else None
    if dag is not None and dag.schedd_name and snapshot.request.status != RequestStatus.QUEUED:
        return _passed(SCHEDDS, f"the DAG is assigned to {dag.schedd_name}")
    full = full_schedds(snapshot.schedds, now=snapshot.now)
    if not full and not all_closed(snapshot.schedds):
        return _passed(SCHEDDS, "a schedd accepts new DAGs")
    counts = ", ".join(f"{row.name} runs {row.dagmans_running} of {row.dagmans_allowed}" for row in full)
    return Gate(
        SCHEDDS,
        Verdict.BLOCK,
        f"no schedd has free DAGMan slots for a DAG and one of its groups: {counts} DAGMans"
        if full
        else "every schedd is draining or fenced",
        since=snapshot.request.status_since,
        remedy="Wait until DAGs end, or raise the limit of running scheduler universe jobs of the schedd"
        if full
        else "Enable a schedd, or wait until its drain is over",
    )


def sites(snapshot: Snapshot) -> Gate:
    """Block while the request has no usable site. For an existing DAG, checked only before a resume."""
    if _is_made(snapshot) and not (snapshot.prepared and snapshot.awaited_site):
        return _passed(SITES, "the DAG exists already")
    workflow, names, awaited = snapshot.workflow, snapshot.sites.names, snapshot.awaited_site
    if awaited is not None:
        return Gate(
            SITES,
            Verdict.BLOCK,
            awaited.message,
            {"site": awaited.absence.site, "until": awaited.absence.until, "cause": awaited.absence.cause},
            since=snapshot.request.status_since,
            remedy="Wait, enable the site or lift its ban, or change the request's site lists",
            opens_at=awaited.absence.until,
        )
    usable = names | snapshot.sites.lacking  # those that the gate of the secondary input reports
    if usable:
        return _passed(SITES, f"{counted(len(usable), 'site')} usable", sites=sorted(usable)[:50])
    return Gate(
        SITES,
        Verdict.BLOCK,
        "no usable site: site lists, drains and bans exclude every site",
        {"whitelist": workflow.site_whitelist, "blacklist": workflow.site_blacklist},
        since=snapshot.request.status_since,
        remedy="Enable a site, lift a ban, or change the request's site lists",
        needs_operator=True,
    )


def memory(snapshot: Snapshot) -> Gate:
    """Block while no usable site offers the memory of a job. Checked before the DAG is created."""
    if _is_made(snapshot):
        return _passed("memory", "the DAG exists already")
    estimate = current_estimate(snapshot.workflow)
    per_core = estimate.memory_mb / estimate.cores
    fitting = snapshot.sites.offering(per_core)
    needed = {
        "memory_mb": estimate.memory_mb,
        "cores": estimate.cores,
        "source": estimate.source_of("memory_mb"),
    }
    if fitting or not snapshot.sites.names:
        return _passed("memory", f"{len(fitting)} sites offer {per_core:.0f} MB per core", **needed)
    return Gate(
        "memory",
        Verdict.BLOCK,
        f"no usable site offers {per_core:.0f} MB per core",
        needed | {"offered_mb_per_core": dict(snapshot.sites.memory_mb_per_core)},
        since=snapshot.request.status_since,
        remedy="Request less memory or more cores, or add a site with larger slots",
        needs_operator=True,
    )


def _is_made(snapshot: Snapshot) -> bool:
    return snapshot.dag is not None and snapshot.dag.status in LIVE_DAG


def schedd(snapshot: Snapshot) -> Gate:
    """Block while the schedd of the DAG is unreachable, by the last observation of the monitor."""
    dag = snapshot.queued_dag
    if dag is None:
        return _passed(SILENT, "no DAG is in the queue")
    row = snapshot.schedds.get(dag.schedd_name)
    if row is None or row.silent_since is None:
        return _passed(SILENT, f"{dag.schedd_name} answers")
    return Gate(
        SILENT,
        Verdict.BLOCK,
        f"{dag.schedd_name} does not answer. Its jobs may still be running",
        {"schedd": dag.schedd_name, "last_seen": dag.observed_at},
        since=row.silent_since,
        remedy="Restart the schedd, or wait: WMS2 changes nothing meanwhile. Fence it if it is lost",
    )


def held_jobs(snapshot: Snapshot) -> Gate:
    """Block while jobs or the DAG are on hold in HTCondor."""
    dag = snapshot.queued_dag
    if dag is None or not (dag.nodes_held or dag.status == DAGStatus.HALTED):
        return _passed("held jobs", "no job is on hold in HTCondor")
    whole = dag.status == DAGStatus.HALTED
    return Gate(
        "held jobs",
        Verdict.BLOCK,
        "the DAG is on hold" if whole else f"{counted(dag.nodes_held, 'job')} on hold in HTCondor",
        {"dag": dag.token, "held": dag.nodes_held},
        since=dag.observed_at or dag.submitted_at,
        remedy="Release the DAG"
        if whole
        else "See the hold reasons in HTCondor. Held jobs fail automatically",
    )


def throttle(snapshot: Snapshot) -> Gate:
    """Block while groups wait in DAGMan for the MergeGroup throttle."""
    dag, limits = snapshot.queued_dag, snapshot.workflow.category_throttles
    limit = int(limits.get("MergeGroup", 0))
    left = snapshot.groups.get(GroupStatus.PLANNED, 0) if dag is not None and limit else 0
    if dag is None or left <= limit:
        return _passed("throttle", f"{limit or 'any number of'} groups may run at a time")
    return Gate(
        "throttle",
        Verdict.BLOCK,
        f"at most {counted(limit, 'group')} run at a time; {counted(left - limit, 'group')} waiting",
        {"limits": limits, "groups_left": left},
        since=dag.submitted_at,
        remedy="Wait: the throttle spreads groups over sites. Raise the MergeGroup throttle for the next DAG",
    )


def running(snapshot: Snapshot) -> Gate:
    """Block until the DAG has ended."""
    dag, stopping = snapshot.dag, snapshot.request.status == RequestStatus.STOPPING
    if dag is None or not (_is_made(snapshot) if stopping else snapshot.queued_dag):
        return _passed("running", "no DAG is in the queue")
    if stopping:
        message = "jobs are leaving the queue"
    elif dag.round.kind == RoundKind.PILOT:
        message = "the pilot is running"
    elif dag.round.kind == RoundKind.PULL:
        message = describe_round(dag) + _obstacles(snapshot)
    else:
        message = describe(round_=dag.round, groups=snapshot.groups) + _obstacles(snapshot)
    return Gate(
        "running",
        Verdict.BLOCK,
        message,
        {"dag": dag.token, "status": dag.status},
        since=dag.submitted_at or dag.created_at,
        remedy="Wait: the jobs are running",
    )


def _obstacles(snapshot: Snapshot) -> str:
    return obstacles(workflow=snapshot.workflow, counts=snapshot.blocks, trouble=snapshot.trouble)


SUBMISSION: tuple[Asked, ...] = (space, schedds, credential)
PLACEMENT: tuple[Asked, ...] = (sites, pileup, memory)
SHARED: tuple[Asked, ...] = (quota, admitted)  # last: evaluated under a lock, with those of other requests
RUNNING: tuple[Asked, ...] = (schedd, held_jobs, hanging_jobs, landings, throttle, running)
OUTPUTS: tuple[Asked, ...] = (stage_out, ownership, output_check, dbs, rucio)
ALWAYS: tuple[Asked, ...] = (hold, cooloff)
_S = RequestStatus
# The gates of each status, in the order of evaluation
ASKED: dict[RequestStatus, tuple[Asked, ...]] = {
    _S.NEW: (hold,),
    _S.SUBMITTED: (*ALWAYS, ownership, configuration, validation),
    _S.QUEUED: (
        *ALWAYS,
        ownership,
        configuration,
        validation,
        storage,
        *SUBMISSION,
        *PLACEMENT,
        data,
        *SHARED,
    ),
    _S.PILOT_RUNNING: (*ALWAYS, *SUBMISSION, *RUNNING, *PLACEMENT),
    _S.PLANNING: (*ALWAYS, *SUBMISSION, *PLACEMENT, quota),
    _S.ACTIVE: (*ALWAYS, *RUNNING, *OUTPUTS, data),
    _S.PARTIAL: ALWAYS,
    _S.STOPPING: (*ALWAYS, schedd, running),
    _S.RESUBMITTING: ALWAYS,
    # After the hold: the gates that would block a released request
    _S.HELD: (*ALWAYS, configuration, validation, data, *PLACEMENT, quota, *OUTPUTS),
    _S.COMPLETED: (announcement,),
    _S.FAILED: (),
    _S.ABORTED: (),
}
check_complete("ASKED", ASKED, _S)
