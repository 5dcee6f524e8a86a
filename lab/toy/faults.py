"""Injects the faults that `lab.toy.knobs` describes into the running job."""

from __future__ import annotations

import errno
import hashlib
import os
import shutil
import time

from lab.toy.knobs import EXIT, Knobs
from sandbox.context import Context
from sandbox.failure import JobFailure, process_exit

POLL_SEC = 0.2


def inject_fault(context: Context, knobs: Knobs) -> None:
    """Fail or delay the job if the knobs match its node, site, file and attempt."""
    if not knobs.injects or not _is_meant(context, knobs):
        return
    if knobs.fail_how == EXIT:
        blamed = _blamed(context, knobs)
        message = f"InjectedFailure: {knobs.fail_exit_code} on attempt {context.attempt} at {context.site}"
        raise JobFailure(knobs.fail_exit_code, " ".join([message, *blamed]), bad_inputs=blamed)
    if knobs.fail_how == "disk_full":
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "injected")
    if knobs.fail_how in ("hang", "slow_start"):
        _wait(context, None if knobs.fail_how == "hang" else knobs.fail_delay_sec)
        return
    back = context.scratch / "back"
    if knobs.fail_how == "truncated_report":
        cut = f'{{"schema": 1, "node": "{context.node}", "exit_code": '
        (back / f"{context.node}.report.json").write_text(cut, encoding="ascii")
    if knobs.fail_how == "held":
        shutil.rmtree(back)
    os._exit(process_exit(knobs.fail_exit_code))  # no report: the wrapper must not end in order either


def _is_meant(context: Context, knobs: Knobs) -> bool:
    job = context.manifest.jobs.get(context.node)
    if not (context.node in knobs.fail_nodes if knobs.fail_nodes else job is not None):
        return False
    if knobs.fail_sites and context.site not in knobs.fail_sites:
        return False
    if knobs.fail_files and not _blamed(context, knobs):
        return False
    if knobs.fail_attempts is not None and context.attempt >= knobs.fail_attempts:
        return False
    return draw(knobs.fail_seed, context.node, context.attempt) < knobs.fail_probability


def draw(seed: int, node: str, attempt: int) -> float:
    """Return a number in [0, 1) that depends on the arguments only."""
    digest = hashlib.blake2b(f"{seed} {node} {attempt}".encode("ascii"), digest_size=8).digest()
    return int.from_bytes(digest, "big") / 2**64


def _blamed(context: Context, knobs: Knobs) -> list[str]:
    """Return the input file that an injected failure names."""
    job = context.manifest.jobs.get(context.node)
    read = [file.lfn for file in job.files] if job else []
    return [lfn for lfn in read if not knobs.fail_files or lfn in knobs.fail_files][:1]


def _wait(context: Context, seconds: float | None) -> None:
    until = None if seconds is None else time.monotonic() + seconds
    deadline = context.deadline
    while until is None or time.monotonic() < until:
        if deadline is not None and time.monotonic() > deadline:
            raise context.out_of_time("an injected wait")
        time.sleep(POLL_SEC)
