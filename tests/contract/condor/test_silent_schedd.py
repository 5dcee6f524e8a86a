"""A schedd that does not answer: bounded calls, no false conclusions, and all DAGs are found afterwards."""

from __future__ import annotations

import os
import pwd
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from condor.ports import ScheddPort
from condor.schedd import Schedd
from condor.types import Presence
from tests.contract.condor.peers import NOWHERE, FakePeer, Peer, RealPeer
from tests.hostile.small_pool import running_pool
from wms2_project.errors import ScheddUnreachable

BOUND_SEC = 2.0
START_SEC = 60.0  # of the child process that holds the bindings, on a busy machine


@dataclass(frozen=True)
class Silencer:
    """A peer, and a context in which its schedd does not answer; it yields an adapter with short timeouts."""

    peer: Peer
    silence: Callable[[], AbstractContextManager[ScheddPort]]


def fake_silencer(directory: Path) -> Iterator[Silencer]:
    peer = FakePeer(directory)

    @contextmanager
    def silence() -> Iterator[ScheddPort]:
        peer.fake.silence()
        yield peer.fake
        peer.fake.answer()

    yield Silencer(peer, silence)


def real_silencer(directory: Path) -> Iterator[Silencer]:
    """Yield a separate pool without slots, so that the stack's schedd is not frozen for other tests."""
    home = directory / "pool"
    with running_pool(home, owner=pwd.getpwuid(os.getuid()).pw_name), pytest.MonkeyPatch.context() as patch:
        patch.setenv("CONDOR_CONFIG", str(home / "condor_config"))
        peer, impatient = (
            RealPeer(directory, sites=NOWHERE),
            Schedd(timeout_sec=BOUND_SEC, submit_timeout_sec=BOUND_SEC),
        )

        @contextmanager
        def silence() -> Iterator[ScheddPort]:
            assert impatient.ping()
            pid = schedd_pid(home / "condor_config")
            os.kill(pid, signal.SIGSTOP)
            try:
                yield impatient
            finally:
                os.kill(pid, signal.SIGCONT)

        yield Silencer(peer, silence)
        peer.clear()
        impatient.close()
        peer.real.close()


def schedd_pid(config: Path) -> int:
    """Return the schedd of this configuration, not a child it has just forked to start a DAGMan."""
    mark = f"CONDOR_CONFIG={config}".encode()
    found = {
        int(path.parent.name): path.parent
        for path in Path("/proc").glob("[0-9]*/comm")
        if _read(path) == b"condor_schedd\n" and mark in _read(path.with_name("environ")).split(b"\0")
    }
    schedds = [pid for pid, process in found.items() if _parent(process) not in (0, *found)]
    assert len(schedds) == 1, found
    return schedds[0]


def _parent(process: Path) -> int:
    lines = _read(process / "status").splitlines()
    return next((int(line.split()[1]) for line in lines if line.startswith(b"PPid:")), 0)


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:  # it ended meanwhile, or is another user's
        return b""


SILENCERS = {"fake": fake_silencer, "real": real_silencer}


@pytest.fixture(params=sorted(SILENCERS))
def silencer(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Silencer]:
    yield from SILENCERS[request.param](tmp_path)


def test_every_call_ends_without_a_conclusion_and_the_dag_is_found_again(silencer: Silencer) -> None:
    peer = silencer.peer
    dag_file = peer.write()
    name = peer.submit(dag_file)
    calls: dict[str, Callable[[ScheddPort], object]] = {
        "query_dags": lambda schedd: schedd.query_dags(),
        "stuck_jobs": lambda schedd: schedd.stuck_jobs([name], idle_sec=0),
        "running_jobs": lambda schedd: schedd.running_jobs([name], longer_than_sec=0),
        "working_groups": lambda schedd: schedd.working_groups([name]),
        "remove_jobs": lambda schedd: schedd.remove_jobs(name, [1], reason="x"),
        "finished_dag": lambda schedd: schedd.finished_dag(name, 1),
        "remove_dag": lambda schedd: schedd.remove_dag(name, reason="x"),
        "clear_batch": lambda schedd: schedd.clear_batch(name, reason="x"),
        "hold_dag": lambda schedd: schedd.hold_dag(name, reason="x"),
        "release_dag": lambda schedd: schedd.release_dag(name, reason="x"),
        "set_priority": lambda schedd: schedd.set_priority(name, 1),
        "place_landings": lambda schedd: schedd.place_landings(name, {"mg_000000": NOWHERE}),
        "explain_idle": lambda schedd: schedd.explain_idle(name),
        "limits": lambda schedd: schedd.limits(),
        "submit_dag": lambda schedd: schedd.submit_dag(dag_file, "wms2-into-silence"),
    }
    with silencer.silence() as schedd:
        for operation, call in calls.items():
            began = time.monotonic()
            with pytest.raises(ScheddUnreachable):
                call(schedd)
            assert time.monotonic() - began < BOUND_SEC + START_SEC, operation
        assert schedd.find_dag(name) == (Presence.UNKNOWN, None)
        assert not schedd.ping()

    peer.bench.wait(lambda: peer.schedd.find_dag(name)[0] is Presence.FOUND)
    assert peer.schedd.find_dag("wms2-into-silence") == (Presence.ABSENT, None)
    assert peer.schedd.remove_dag(name, reason="the test is over", resumable=False) >= 1
