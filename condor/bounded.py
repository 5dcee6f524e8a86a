"""Calls to HTCondor's bindings that end in time or raise ScheddUnreachable.

The bindings run in a child process (`condor.bindings`). A child that does not answer by the deadline is
killed, and the next call starts another. The child ends when this process does.
"""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from wms2_project.errors import ScheddUnreachable
from wms2_project.observation.tracing import SpanKind, note, span

COMMAND = (sys.executable, "-P", "-m", "condor.bindings")
START_TIMEOUT_SEC = 30.0
_CURE = "Retried automatically. Check that the schedd runs and that CONDOR_CONFIG names its pool"
_ROOT = Path(__file__).resolve().parent.parent
# DAGMan inherits the child's environment: it must not contain secrets or addresses of WMS2's services.
_KEPT = ("CONDOR_CONFIG", "PATH", "HOME", "USER", "LOGNAME", "LANG", "LC_ALL", "TZ", "TMPDIR", "WMS2_PART")
_CREDENTIALS = ("X509_USER_PROXY", "BEARER_TOKEN_FILE", "XDG_RUNTIME_DIR")


class BindingsError(Exception):
    """An error from the bindings; its meaning depends on the call."""


class BoundedCalls:
    """A child process, started when needed; may be shared by threads and survives a fork."""

    def __init__(
        self, *, command: Sequence[str] = COMMAND, start_timeout_sec: float = START_TIMEOUT_SEC
    ) -> None:
        self._command, self._start_timeout_sec = command, start_timeout_sec
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._owner = os.getpid()

    @span("schedd call", kind=SpanKind.CLIENT)
    def call(self, operation: str, *, timeout_sec: float, **arguments: Any) -> Any:
        """Return the operation's value.

        Raise BindingsError if the operation failed, ScheddUnreachable if it did not end in time.
        """
        note(f"schedd: {operation}", service="schedd")
        self._forget_inherited()
        if not self._lock.acquire(timeout=timeout_sec):
            raise ScheddUnreachable(f"{operation} waited {timeout_sec:g} s for earlier calls", cure=_CURE)
        try:
            process = self._running()
            request = json.dumps({"operation": operation, "arguments": arguments}).encode() + b"\n"
            answer = self._exchange(process, request, timeout_sec, operation)
        finally:
            self._lock.release()
        if "error" in answer:
            raise BindingsError(answer["error"])
        return answer["value"]

    def close(self) -> None:
        self._forget_inherited()
        with self._lock:
            self._end()

    def _running(self) -> subprocess.Popen[bytes]:
        process = self._process
        if process is None or process.poll() is not None:
            self._end()
            process = self._process = subprocess.Popen(
                self._command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                bufsize=0,
                env=child_environment(os.environ),
                start_new_session=True,  # shields it from Ctrl-C; it ends with its input
            )
            self._exchange(process, b"", self._start_timeout_sec, "starting the bindings")
        return process

    def _exchange(
        self, process: subprocess.Popen[bytes], request: bytes, timeout_sec: float, what: str
    ) -> dict[str, Any]:
        """Write the request and read one line; end the child if either fails."""
        try:
            line = _talk(process, request, time.monotonic() + timeout_sec)
            answer = json.loads(line)
        except TimeoutError as error:
            self._end()
            raise ScheddUnreachable(f"{what}: no answer within {timeout_sec:g} s", cure=_CURE) from error
        except (OSError, ValueError, EOFError) as error:
            self._end()
            raise ScheddUnreachable(f"{what}: the bindings process ended ({error})", cure=_CURE) from error
        if not isinstance(answer, dict):
            raise ScheddUnreachable(f"{what}: the bindings process returned an invalid answer", cure=_CURE)
        return answer

    def _end(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait()
            _close_pipes(process)

    def _forget_inherited(self) -> None:
        """After a fork, drop the parent's child process, so that this process starts its own."""
        if self._owner != os.getpid():
            self._owner, self._lock = os.getpid(), threading.Lock()
            process, self._process = self._process, None
            if process is not None:
                _close_pipes(process)


def child_environment(ours: os._Environ[str] | dict[str, str]) -> dict[str, str]:
    """Return the variables that HTCondor needs, and an import path that the child drops again."""
    kept = {
        key: value
        for key, value in ours.items()
        if key in (*_KEPT, *_CREDENTIALS) or key.startswith("_CONDOR_")
    }
    kept["PYTHONPATH"] = os.pathsep.join(dict.fromkeys([str(_ROOT), *filter(None, sys.path)]))
    return kept


def _talk(process: subprocess.Popen[bytes], request: bytes, deadline: float) -> bytes:
    if process.stdin is None or process.stdout is None:
        raise ValueError("no pipes")
    to_child, from_child = process.stdin.fileno(), process.stdout.fileno()
    os.set_blocking(to_child, False)
    rest = memoryview(request)
    while rest:
        _wait(to_child, select.POLLOUT, deadline)
        rest = rest[os.write(to_child, rest) :]
    received = bytearray()
    while not received.endswith(b"\n"):
        _wait(from_child, select.POLLIN, deadline)
        chunk = os.read(from_child, 1 << 20)
        if not chunk:
            raise EOFError("it closed its output")
        received += chunk
    return bytes(received)


def _wait(handle: int, event: int, deadline: float) -> None:
    poll = select.poll()
    poll.register(handle, event)
    if not poll.poll(max(0.0, deadline - time.monotonic()) * 1000):
        raise TimeoutError


def _close_pipes(process: subprocess.Popen[bytes]) -> None:
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            pipe.close()
