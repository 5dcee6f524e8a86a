"""Runs the payload such that none of its processes is left when the wrapper continues.

Where the kernel allows it, the payload has a PID namespace of its own: it sees and signals no other
process, and the kernel ends all of it with its first process. Elsewhere the wrapper is a child subreaper:
processes that the payload detaches (double fork, setsid) stay below the wrapper in the process tree, where
they are found and killed. The payload gains no privileges by setuid programs, so the wrapper can end all
its processes.
"""

from __future__ import annotations

import ctypes
import errno
import os
import resource
import select
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple, NoReturn

from sandbox.failure import WRAPPER_KILL, JobFailure
from sandbox.streams import CHUNK_BYTES, CappedStream

SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGXCPU)
SWITCH = "WMS2_PAYLOAD_NAMESPACE"  # 0 = without a namespace; for tests
END_SEC = 60  # a killed process that has not ended by then hangs in the kernel
FIRST_WAIT_SEC, LAST_WAIT_SEC = 0.001, 0.05
PATIENCE_SEC = 0.005  # the keeper ends by itself right after its answer
MAX_POLL_MS = 3_600_000
SPARE_PROCESSES = 8192  # beyond those of the whole host when the payload starts
PR_SET_PDEATHSIG, PR_SET_DUMPABLE, PR_SET_CHILD_SUBREAPER, PR_SET_NO_NEW_PRIVS = 1, 4, 36, 38
CLONE_NEWNS, CLONE_NEWUSER, CLONE_NEWPID = 0x20000, 0x10000000, 0x20000000
MS_NOSUID_NODEV_NOEXEC, MS_REC_SLAVE = 0xE, 0x84000


class Payload(NamedTuple):
    """A program to run."""

    command: Sequence[str]
    directory: Path
    environment: Mapping[str, str]


class Tree:
    """The payload's processes and their standard output and error."""

    def __init__(self, stdout: CappedStream, stderr: CappedStream) -> None:
        self.started = False  # has payload code run in this job?
        self._streams = (stdout, stderr)
        self.left_behind = False  # did a payload end before processes it had started?
        self._namespace = os.environ.get(SWITCH) != "0"

    def run_own(self, program: Payload, deadline: float | None) -> int | None:
        """Run a program of WMS2 like a payload; the job's directory needs no reclaiming after it."""
        before = self.started
        try:
            return self.run(program, deadline)
        finally:
            self.started = before

    def run(self, payload: Payload, deadline: float | None) -> int | None:
        """Run the payload to its end, then end all its processes.

        Returns its exit status (negative: the signal), or None if the deadline (monotonic clock) passed.
        Raises OSError if the program cannot be started, JobFailure if a process cannot be ended.
        """
        self.started = True
        _prctl(PR_SET_CHILD_SUBREAPER, 1)
        # The payload runs as the same user: it must not open the wrapper's memory or files by /proc.
        _prctl(PR_SET_DUMPABLE, 0)
        answer = self._run_once(payload, deadline)
        if answer == [b"no-namespace"]:
            self._namespace = False
            answer = self._run_once(payload, deadline)
        if answer is None:
            return None
        if answer[:1] == [b"error"]:
            number = int(answer[1])
            raise OSError(number, os.strerror(number))
        if answer[:1] != [b"ended"]:
            return -signal.SIGKILL  # the payload killed the process that waited for it
        self.left_behind |= answer[2] == b"left"
        return int(answer[1])

    def end(self) -> None:
        """Kill and reap every process below this one. Raises JobFailure if one does not end."""
        until, wait_sec = time.monotonic() + END_SEC, FIRST_WAIT_SEC
        while self.started and _has_children():
            if wait_sec > PATIENCE_SEC:
                _kill_descendants()
            if time.monotonic() > until:
                raise JobFailure(WRAPPER_KILL, "payload: its processes could not be ended")
            time.sleep(wait_sec)
            wait_sec = min(2 * wait_sec, LAST_WAIT_SEC)

    def _run_once(self, payload: Payload, deadline: float | None) -> list[bytes] | None:
        """Return the words of the keeper's answer; None if the deadline passed."""
        answer, tell = os.pipe()
        pipes = [os.pipe() for _ in self._streams]
        mask = set(signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS))
        if os.fork() == 0:
            _keep(payload, [write for _, write in pipes], tell, mask, namespace=self._namespace)
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        for descriptor in (tell, *(write for _, write in pipes)):
            os.close(descriptor)
        sources = {read: self._streams[index] for index, (read, _) in enumerate(pipes)}
        try:
            return _pump(answer, sources, deadline)
        finally:
            self.end()
            for read, stream in sources.items():
                _drain(read, stream)
            os.close(answer)


def _pump(answer: int, sources: Mapping[int, CappedStream], deadline: float | None) -> list[bytes] | None:
    """Copy output until the keeper answers or has ended."""
    poll = select.poll()
    for descriptor in (answer, *sources):
        poll.register(descriptor, select.POLLIN)
    while True:
        left_ms = MAX_POLL_MS if deadline is None else min((deadline - time.monotonic()) * 1000, MAX_POLL_MS)
        if left_ms <= 0:
            return None
        for descriptor, _ in poll.poll(left_ms):
            if descriptor == answer:
                return os.read(answer, 100).split()
            data = os.read(descriptor, CHUNK_BYTES)
            if data:
                sources[descriptor].write(data)
            else:
                poll.unregister(descriptor)


def _drain(source: int, stream: CappedStream) -> None:
    """Read the rest of a pipe without writers."""
    os.set_blocking(source, False)
    with suppress(BlockingIOError):
        for _ in range(64):  # the largest pipe; a descriptor may have been passed on to another job
            data = os.read(source, CHUNK_BYTES)
            if not data:
                break
            stream.write(data)
    os.close(source)


def _keep(payload: Payload, outputs: list[int], tell: int, mask: set[int], *, namespace: bool) -> NoReturn:
    """Run the payload in a child process, report how it ended, and never return."""
    try:
        _prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        for number in SIGNALS:
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        if namespace and not _enter_namespace(tell):
            os.write(tell, b"no-namespace")
        else:
            os.write(tell, _supervise(payload, outputs))
    finally:
        os._exit(0)


def _enter_namespace(tell: int) -> bool:
    """Continue as the first process of a PID namespace with its own /proc. Returns False if not allowed."""
    if not (_unshare() if os.getuid() == 0 else _unshare_as_user()):
        return False
    first = os.fork()
    if first:
        os.close(tell)
        os.waitpid(first, 0)
        os._exit(0)
    _prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    private = _libc.mount(None, b"/", None, MS_REC_SLAVE, None)
    return not private and not _libc.mount(b"proc", b"/proc", b"proc", MS_NOSUID_NODEV_NOEXEC, None)


def _unshare(flags: int = 0) -> bool:
    return bool(_libc.unshare(flags | CLONE_NEWPID | CLONE_NEWNS) == 0)


def _unshare_as_user() -> bool:
    """Unshare in a user namespace, which users other than root need."""
    uid, gid = os.getuid(), os.getgid()
    files = {"setgroups": "deny", "uid_map": f"{uid} {uid} 1", "gid_map": f"{gid} {gid} 1"}
    _prctl(PR_SET_DUMPABLE, 1)  # else the files below belong to root
    try:
        if not _unshare(CLONE_NEWUSER):
            return False
        for name, text in files.items():
            with open(f"/proc/self/{name}", "w", encoding="ascii") as handle:
                handle.write(text)
    except OSError:
        return False
    finally:
        _prctl(PR_SET_DUMPABLE, 0)
    return True


def _supervise(payload: Payload, outputs: list[int]) -> bytes:
    """Run the command and wait for it; detached processes become children of this process."""
    _prctl(PR_SET_CHILD_SUBREAPER, 1)
    _prctl(PR_SET_NO_NEW_PRIVS, 1)
    _limit_processes()
    try:
        main = subprocess.Popen(
            payload.command,
            cwd=payload.directory,
            env=payload.environment,
            stdin=subprocess.DEVNULL,
            stdout=outputs[0],
            stderr=outputs[1],
            start_new_session=True,
        )
    except (OSError, ValueError) as error:  # ValueError: a word that is no text for the kernel
        return b"error %d" % (getattr(error, "errno", None) or errno.EINVAL)
    pid = 0
    while pid != main.pid:
        pid, status = os.wait()
    left = b"left" if _has_children() else b"none"
    return b"ended %d %s" % (os.waitstatus_to_exitcode(status), left)


def _limit_processes() -> None:
    """Bound what a fork bomb can start; the limit counts all processes of the user on this host."""
    with suppress(OSError, ValueError, IndexError):
        with open("/proc/loadavg", encoding="ascii") as handle:
            threads = int(handle.read().split()[3].split("/")[1])
        hard = resource.getrlimit(resource.RLIMIT_NPROC)[1]
        limit = threads + SPARE_PROCESSES
        limit = limit if hard == resource.RLIM_INFINITY else min(limit, hard)
        resource.setrlimit(resource.RLIMIT_NPROC, (limit, limit))


def _has_children() -> bool:
    """Reap children that have ended. Returns False if none is left, and so no descendant either."""
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        return False
    return True


def _kill_descendants() -> None:
    """Kill the processes below this one and their process groups.

    The kernel signals a whole group at once: processes that replace themselves faster than /proc is read
    escape a signal to a process, but not one to their group.
    """
    own = os.getpgrp()
    for number in (signal.SIGSTOP, signal.SIGKILL):  # a stopped process starts no further ones
        found = _descendants()
        for group in {group for _, group in found} - {own, 0}:
            with suppress(OSError):
                os.killpg(group, number)
        for pid, _ in found:
            with suppress(OSError):
                os.kill(pid, number)


def _descendants() -> list[tuple[int, int]]:
    """Return the processes below this one with their groups, as far as they can be observed."""
    children: dict[int, list[tuple[int, int]]] = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            with suppress(OSError, ValueError):
                with open(f"/proc/{name}/stat", "rb") as handle:
                    # the second field is a name chosen by the process, in parentheses
                    _, parent, group = handle.read().rpartition(b")")[2].split()[:3]
                children.setdefault(int(parent), []).append((int(name), int(group)))
    found = list(children.get(os.getpid(), ()))
    for pid, _ in found:
        found += children.get(pid, ())
    return found


def _prctl(option: int, value: int) -> None:
    _libc.prctl(option, *(ctypes.c_ulong(number) for number in (value, 0, 0, 0)))


_libc = ctypes.CDLL(None, use_errno=True)
