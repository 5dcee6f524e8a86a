"""Processes of a stack: they end with it, and are found by a mark in their environment, never by name.

Every process has ``WMS2_PART=<home>:<service>`` in its environment, so that leftovers are found exactly,
whatever their parent is.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from lab.paths import Layout

MARK = "WMS2_PART"
PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36
libc = ctypes.CDLL(None, use_errno=True)


def mark(layout: Layout, part: str) -> dict[str, str]:
    """Return the environment entry that makes a process a member of the stack."""
    return {MARK: f"{layout.home}:{part}"}


def adopt_orphans() -> None:
    """Become the parent of orphaned grandchildren, so that this process reaps them."""
    libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def default_signals() -> None:
    """Reset the signal settings inherited from the caller, before anything is started.

    A shell ignores SIGINT and SIGQUIT for its background jobs; exec keeps that, and every service and test
    would inherit it. SIGPIPE and SIGXFSZ are ignored by Python itself, and Popen resets them.
    """
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    for sig in signal.valid_signals() - {signal.SIGPIPE, signal.SIGXFSZ}:
        if signal.getsignal(sig) is signal.SIG_IGN:
            signal.signal(sig, signal.default_int_handler if sig == signal.SIGINT else signal.SIG_DFL)


def dying_with_us(sig: signal.Signals) -> Callable[[], None]:
    """Return a `preexec_fn` for a child that gets the signal when this process dies."""
    parent = os.getpid()

    def in_child() -> None:
        libc.prctl(PR_SET_PDEATHSIG, int(sig), 0, 0, 0)
        if os.getppid() != parent:  # this process ended between fork and prctl
            os._exit(1)

    return in_child


def spawn(
    argv: Sequence[str | Path],
    *,
    env: Mapping[str, str],
    cwd: Path,
    output: Path,
    die_with_us: signal.Signals | None,
) -> subprocess.Popen[bytes]:
    """Start a process in its own session, so that it gets no Ctrl-C, with its output appended to a file."""
    with output.open("ab") as out:
        return subprocess.Popen(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
            cwd=cwd,
            env=dict(env),
            start_new_session=True,
            preexec_fn=None if die_with_us is None else dying_with_us(die_with_us),
        )


def started_at(pid: int) -> int | None:
    """Return the start time in clock ticks, None if the process has ended; it makes a pid unique."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    fields = stat.rpartition(")")[2].split()
    return None if fields[0] == "Z" else int(fields[19])


def frozen(pid: int) -> bool:
    """Return whether the process is stopped by SIGSTOP."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[0] == "T"


def working_directory(pid: int) -> str | None:
    try:
        return os.readlink(f"/proc/{pid}/cwd")
    except OSError:  # gone, a zombie, or another user's
        return None


def members(layout: Layout, part: str | None = None) -> list[int]:
    """Return live processes of this stack, or of one part of it.

    Jobs and DAGMan get a clean environment from HTCondor, but it names their job ad inside the state
    directory.
    """
    marks = [f"\0{MARK}={layout.home}:{part}\0" if part else f"\0{MARK}={layout.home}:"]
    if part in (None, "condor"):
        marks.append(f"\0_CONDOR_JOB_AD={layout.data}/")
    wanted = [text.encode() for text in marks]
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        try:
            environment = b"\0" + (entry / "environ").read_bytes()
        except OSError:  # gone, or another user's
            continue
        if any(text in environment for text in wanted):
            found.append(int(entry.name))
    return found


def send(pid: int, sig: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, sig)


def wipe(layout: Layout, part: str | None = None) -> None:
    """Kill all processes until none is left: two schedds must never share a spool."""
    for _ in range(100):
        pids = members(layout, part)
        if not pids:
            return
        for pid in pids:
            send(pid, signal.SIGKILL)
        time.sleep(0.02)


def clear_leftovers(layout: Layout, *, patience_sec: float = 5.0) -> int:
    """Wait for processes of the last run to end, then kill them; return how many there were."""
    met = len(members(layout))
    end = time.monotonic() + patience_sec
    while members(layout) and time.monotonic() < end:
        time.sleep(0.05)
    wipe(layout)
    return met
