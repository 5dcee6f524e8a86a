"""The simulated services as a process: data survives a kill, and many callers are served at once."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import requests

from lab.cms_world.server import running_world

ROOT = Path(__file__).parents[3]
Ask = Callable[..., requests.Response]


def start(state: Path) -> tuple[subprocess.Popen[str], str]:
    process = subprocess.Popen(
        [sys.executable, "-m", "lab.cms_world", "--port", "0", "--state", str(state)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "WMS2_LAB_RUCIO_PASSWORD": "from-the-launcher"},
    )
    assert process.stdout is not None
    return process, process.stdout.readline().split()[-1]


def test_everything_acknowledged_survives_a_kill(tmp_path: Path) -> None:
    process, url = start(tmp_path)
    requests.post(f"{url}/lab/requests", json={"RequestName": "ana_1"}, timeout=60)
    fault = {"service": "cric", "kind": "status", "status": 503, "times": 7}
    requests.put(f"{url}/lab/faults", json=[fault], timeout=60)
    process.send_signal(signal.SIGKILL)
    process.wait(timeout=60)

    again, url = start(tmp_path)
    try:
        state = requests.get(f"{url}/lab/state", timeout=60).json()
    finally:
        again.terminate()

    assert state["requests"] == {"ana_1": "assigned"}
    assert state["faults"][0]["times"] == 7
    assert again.wait(timeout=60) == 0


def test_password_comes_from_the_launcher(tmp_path: Path) -> None:
    process, url = start(tmp_path)
    who = {"X-Rucio-Account": "wms2", "X-Rucio-Username": "wms2"}
    try:
        statuses = [
            requests.get(
                f"{url}/rucio/auth/userpass", headers={**who, "X-Rucio-Password": password}, timeout=60
            ).status_code
            for password in ("wms2-lab", "from-the-launcher")
        ]
    finally:
        process.terminate()
        process.wait(timeout=60)

    assert statuses == [401, 200]


def test_stopped_world_answers_no_more(tmp_path: Path) -> None:
    session = requests.Session()
    with running_world(tmp_path) as world:
        session.get(f"{world.url}/lab/health", timeout=60)

    with pytest.raises(requests.ConnectionError):
        session.get(f"{world.url}/lab/health", timeout=60)


def test_one_of_many_simultaneous_insertions_wins(ask: Ask, token: str) -> None:
    def add(_: int) -> int:
        path = "/rucio/dids/cms/%2FA%2FB-v1%2FRAW"
        return ask("POST", path, {"type": "CONTAINER"}, X_Rucio_Auth_Token=token).status_code

    with ThreadPoolExecutor(8) as pool:
        statuses = sorted(pool.map(add, range(24)))

    assert statuses == [201] + [409] * 23


def test_an_answer_is_sent_whole(ask: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    """An answer in two packets would wait 40 ms for the acknowledgement of the first."""
    sent: list[int] = []
    send = socket.SocketIO.write

    def counted(line: socket.SocketIO, data: Any) -> int | None:
        sent.append(len(data))
        return send(line, data)

    monkeypatch.setattr(socket.SocketIO, "write", counted)
    answer = ask("GET", "/lab/health")

    assert len(sent) == 1
    assert sent[0] > len(answer.content)


def test_unknown_service_is_404(ask: Ask) -> None:
    assert ask("GET", "/phedex/data").status_code == 404


def test_body_that_is_not_json_is_refused(ask: Ask) -> None:
    url = ask("GET", "/lab/health").url.replace("health", "requests")

    assert requests.post(url, data=b"{", timeout=60).status_code == 400
