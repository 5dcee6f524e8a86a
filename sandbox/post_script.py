"""POST of processing, merge and cleanup nodes: classifies one attempt and tells DAGMan what to do.

Runs in the group directory with USAGE's arguments. Exit 0 = done, 1 = retry, 42 = do not retry, 43 = abort
the DAG. Never sleeps, and survives any input.
"""

from __future__ import annotations

import os
import sys

if __package__ in (None, ""):
    sys.path[0] = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))

import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sandbox import names
from sandbox.evidence import PLAN, Evidence, gather, keep_streams, note_end, promote_manifest, set_aside
from sandbox.exitcodes import TRANSIENT
from sandbox.jsonfile import SCHEMA, ClaimRefused, ManifestError, clean_text, read_json, write_json
from sandbox.limits import UNKNOWN_LIMITS, Limit, Resource, raise_limit, read_limits
from sandbox.postrecord import SUCCESS, record_name
from sandbox.selflimit import OutOfTime, TooCostly, limit_self
from sandbox.values import is_whole

USAGE = (
    "<node> <return> <retry> <max_retries> <jobid> <dag_status> <failed_count>"
    " [cooloff_base_sec memory_ceiling_mb wall_time_ceiling_minutes disk_ceiling_kb]"
)
DONE, RETRY, STOP, ABORT = 0, 1, 42, 43
COOLOFF_BASE_SEC = 60
COOLOFF_MAX_SEC = 3600
ACTIONS = {DONE: "none", RETRY: "retry", STOP: "permanent_failure", ABORT: "abort_dag"}


@dataclass(frozen=True)
class Attempt:
    """The arguments that DAGMan passes."""

    node: str
    return_value: int
    number: int
    max_retries: int
    job_id: str
    dag_status: str
    failed_count: str
    cooloff_base_sec: int
    ceilings: Mapping[Resource, int]


@dataclass(frozen=True)
class Decision:
    exit_status: int
    category: str
    reason: str
    advice: str = ""
    retryable: bool = False
    memory: Limit = UNKNOWN_LIMITS[Resource.MEMORY]
    raised: Limit | None = None
    bad_input_files: tuple[str, ...] = ()
    proof: str = ""
    limit: str = ""  # what ended the retries


def main(arguments: Sequence[str]) -> int:
    if len(arguments) < 5 or not names.matches(names.NODE, arguments[0]):
        sys.stderr.write(f"usage: post_script {USAGE}; got {list(arguments)!r:.200}\n")
        return RETRY
    attempt = parse_arguments(arguments)
    earlier = _earlier_answer(attempt)
    if earlier is not None:
        return earlier
    return _judge(attempt)


def _judge(attempt: Attempt) -> int:
    evidence, unusable = gather(attempt.node, attempt.return_value, attempt.job_id), ""
    if attempt.node == "cleanup" and evidence.exit_code == 0:
        try:
            unusable = promote_manifest()
        except (ClaimRefused, MemoryError, TooCostly) as error:
            evidence = evidence.refuse(str(error) or "the group's manifest takes too much memory")
    decision = decide(attempt, evidence, unusable)
    record = build_record(attempt, evidence, decision, time.time())
    try:
        write_json(Path(record_name(attempt.node, attempt.number)), record)
    except OSError as error:
        sys.stderr.write(f"{attempt.node}: the record could not be written: {error}\n")
    if record["final"] and attempt.node.startswith("proc_"):
        note_end(evidence.exit_code)
    _forget_later_attempts(attempt)
    _set_cooloff(attempt, decision)
    _raise(attempt.node, record["raised"])
    if decision.exit_status != DONE:
        set_aside(attempt.node, attempt.number)
    elif evidence.with_log:
        keep_streams(attempt.node)
    return decision.exit_status


def parse_arguments(arguments: Sequence[str]) -> Attempt:
    """Parse the arguments; an invalid number counts as a failed first attempt without known retries."""
    padded = [clean_text(one, 64) for one in [*arguments, *[""] * 11]]
    return Attempt(
        node=padded[0],
        return_value=_whole(padded[1], 1),
        number=max(_whole(padded[2], 0), 0),
        max_retries=max(_whole(padded[3], 0), 0),
        job_id=padded[4],
        dag_status=padded[5],
        failed_count=padded[6],
        cooloff_base_sec=max(_whole(padded[7], COOLOFF_BASE_SEC), 0),
        ceilings={
            Resource.MEMORY: max(_whole(padded[8], 0), 0),
            Resource.WALL_TIME: max(_whole(padded[9], 0), 0),
            Resource.DISK: max(_whole(padded[10], 0), 0),
        },
    )


def decide(attempt: Attempt, evidence: Evidence, unusable: str = "") -> Decision:
    """Decide about the attempt: success requires exit status, report, plan and manifest to agree."""
    if evidence.exit_code == 0:
        if not unusable:
            return Decision(DONE, SUCCESS, "")
        return Decision(RETRY, TRANSIENT, unusable, retryable=True)
    from sandbox.classify import classify
    from sandbox.proof import find_proof

    limits = read_limits(attempt.node, attempt.ceilings)
    found = classify(
        evidence.exit_code,
        attempt=attempt.number,
        wall_time_sec=evidence.wall_time_sec,
        bad_inputs=evidence.bad_inputs,
        used_mb=evidence.memory_mb,
        limits=limits,
        by_pool=evidence.report is None and evidence.fjr is None,
    )
    proof = find_proof(evidence.exit_code, site=evidence.site, bad_inputs=found.bad_input_files)
    status = ABORT if proof else RETRY if found.retryable else STOP
    return Decision(
        exit_status=status,
        category=found.category,
        reason="; ".join(part for part in (found.reason, proof, evidence.note) if part),
        advice=found.advice,
        retryable=status == RETRY,
        memory=limits[Resource.MEMORY],
        raised=found.raised if status == RETRY else None,
        bad_input_files=found.bad_input_files,
        proof=clean_text(proof),
        limit=found.limit if status == STOP else "",
    )


def build_record(attempt: Attempt, evidence: Evidence, decision: Decision, now: float) -> dict[str, Any]:
    final = decision.exit_status != RETRY or attempt.number >= attempt.max_retries
    raised = {decision.raised.resource.value.name: decision.raised.next} if decision.raised else {}
    action = f"retry_more_{next(iter(raised))}" if raised else ACTIONS[decision.exit_status]
    limit = decision.limit
    if final and decision.exit_status == RETRY:
        action, limit = "retries_exhausted", f"all {attempt.max_retries + 1} attempts were used"
    return {
        "schema": SCHEMA,
        "node_name": attempt.node,
        "timestamp": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(now)),
        "attempt": attempt.number,
        "max_retries": attempt.max_retries,
        "final": final,
        "post_exit_code": decision.exit_status,
        "job": {
            "job_id": attempt.job_id,
            "exit_code": evidence.exit_code,
            "source": evidence.source,
            "return_value": attempt.return_value,
            "exit_signal": -attempt.return_value if -64 <= attempt.return_value < 0 else None,
            "hold_reason": evidence.hold_reason or None,
            "removal_reason": evidence.removal_reason or None,
            "wall_time_sec": evidence.wall_time_sec,
            "cpu_time_sec": evidence.cpu_time_sec,
            "memory_mb": evidence.memory_mb,
            "site": evidence.site,
            "schedd": os.uname().nodename,
        },
        "memory": {
            "requested_mb": decision.memory.requested,
            "next_mb": raised.get("memory"),
            "ceiling_mb": attempt.ceilings[Resource.MEMORY],
        },
        "raised": raised,
        "cmssw": evidence.cmssw(),
        "classification": {
            "category": decision.category,
            "retryable": decision.retryable,
            "bad_input_files": list(decision.bad_input_files),
            "action": action,
            "reason": decision.reason,
            "advice": decision.advice,
            "step": evidence.failed_step,
            "proof": decision.proof,
            "limit": limit,
        },
        "dag": {"status": attempt.dag_status, "failed_count": attempt.failed_count},
        "log_tail": evidence.log_tail,
    }


def _earlier_answer(attempt: Attempt) -> int | None:
    """Return the decision recorded for the same job: a restarted DAGMan may run POST again."""
    try:
        known = read_json(Path(record_name(attempt.node, attempt.number)))
    except ManifestError:
        return None
    job = known.get("job") if isinstance(known, dict) else None
    if not isinstance(known, dict) or not isinstance(job, dict) or not attempt.job_id[:1].isdigit():
        return None
    status = known.get("post_exit_code")
    same = job.get("job_id") == attempt.job_id and job.get("return_value") == attempt.return_value
    if not same or status not in (RETRY, STOP, ABORT):
        return None
    _raise(attempt.node, known.get("raised"))
    return int(status)


def _forget_later_attempts(attempt: Attempt) -> None:
    """Remove records of higher attempts: after a rescue, attempts count from 0 again."""
    number = attempt.number + 1
    with suppress(OSError):
        while True:
            os.unlink(record_name(attempt.node, number))
            number += 1


def _set_cooloff(attempt: Attempt, decision: Decision) -> None:
    """Write when the node may start again; DAGMan defers its PRE script until then."""
    path = Path(f"{attempt.node}.not_before")
    with suppress(OSError):
        if decision.exit_status == RETRY and attempt.number < attempt.max_retries:
            wait = min(attempt.cooloff_base_sec * 2 ** min(attempt.number, 16), COOLOFF_MAX_SEC)
            path.write_text(f"{int(time.time()) + wait}\n", encoding="ascii")
        else:
            path.unlink()


def _raise(node: str, raised: object) -> None:
    """Raise the limit, after the record with the same value: repeating it changes nothing."""
    for resource in Resource:
        amount = raised.get(resource.value.name) if isinstance(raised, dict) else None
        if is_whole(amount, 1, 10**12):
            with suppress(OSError):
                raise_limit(node, resource.value.name, amount)


def _whole(text: str, default: int) -> int:
    try:
        return int(text[:12])
    except ValueError:
        return default


def guarded_main(arguments: Sequence[str]) -> int:
    """Run POST; on a bug or a slow disk print the error and retry the node."""
    try:
        return main(arguments)
    except (Exception, TooCostly, OutOfTime):  # noqa: BLE001 - DAGMan must get one of the four answers
        import traceback

        traceback.print_exc()
        return RETRY


def limited_main(arguments: Sequence[str]) -> int:
    """Run POST as a process of its own, with limits."""
    limit_self(PLAN)
    return guarded_main(arguments)


if __name__ == "__main__":
    sys.exit(limited_main(sys.argv[1:]))
