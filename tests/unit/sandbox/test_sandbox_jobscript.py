"""Jobscripts: lists of processed files and outputs, and the client, against a server in this process."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from sandbox.pull.client import Client, Refused, Unreachable
from sandbox.pull.jobscript import find_outputs, read_processed

FILES = [
    {
        "lfn": f"/store/data/{number}.root",
        "pfn": f"davs://site:1/store/data/{number}.root",
        "rse": "T2_CH_CERN",
    }
    for number in range(3)
]


@pytest.mark.parametrize(
    ("lists", "processed"),
    [
        ({}, []),
        ({"processed-dids.txt": "/store/data/1.root\n"}, ["/store/data/1.root"]),
        ({"processed-dids.txt": "\r\n/store/data/1.root\r\n\r\n/store/data/1.root"}, ["/store/data/1.root"]),
        ({"justin-processed-dids.txt": "cms:/store/data/2.root\n"}, ["/store/data/2.root"]),
        ({"processed-pfns.txt": "davs://site:1/store/data/0.root"}, ["/store/data/0.root"]),
        ({"justin-processed-pfns.txt": "davs://site:1/store/data/0.root\nstrange"}, ["/store/data/0.root"]),
        ({"processed-dids.txt": "/store/data/9.root\n"}, []),
    ],
)
def test_known_names_of_the_lists_count_and_others_are_reported(
    tmp_path: Path, lists: dict[str, str], processed: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    for name, text in lists.items():
        (tmp_path / name).write_bytes(text.encode())
    assert read_processed(tmp_path, FILES) == processed
    assert ("is ignored" in capsys.readouterr().err) is any(
        word in text for text in lists.values() for word in ("strange", "9.root")
    )


def test_outputs_are_the_matching_files_with_their_descriptions(tmp_path: Path) -> None:
    for name in ("a.root", "b.root", "c.txt", "processed-dids.txt"):
        (tmp_path / name).write_text(name)
    (tmp_path / "a.root.json").write_text(json.dumps({"events": 7, "lumis": {"1": [[2, 3]]}}))
    found = find_outputs(tmp_path, ["*.root", "*.json", "*.txt"])
    assert [(made.name, made.events, made.lumis) for made in found] == [
        ("a.root", 7, {1: [[2, 3]]}), ("b.root", None, {}), ("c.txt", None, {}),
    ]  # fmt: skip
    assert [made.size_bytes for made in found] == [6, 6, 5]


class _Server(ThreadingHTTPServer):
    """Answers calls with the given statuses and bodies; repeats the last one."""

    answers: list[tuple[int, Any]]
    seen: list[tuple[str, str]]


class _Handler(BaseHTTPRequestHandler):
    server: _Server

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.server.seen.append((self.path, self.headers["Authorization"]))
        answers = self.server.answers
        status, body = answers.pop(0) if len(answers) > 1 else answers[0]
        data = json.dumps(body).encode()
        self.send_response(status)
        if status == 302:
            self.send_header("Location", "http://127.0.0.1:1/")
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: Any) -> None:
        """Log nothing."""


@pytest.fixture
def server() -> Iterator[_Server]:
    made = _Server(("127.0.0.1", 0), _Handler)
    made.answers, made.seen = [(200, {"ok": True})], []
    threading.Thread(target=made.serve_forever, daemon=True).start()
    yield made
    made.shutdown()
    made.server_close()


def client_of(server: _Server, **values: Any) -> Client:
    return Client(f"http://127.0.0.1:{server.server_port}", "w", sleep=lambda _: None, **values)


def test_a_call_continues_during_an_outage_of_the_server(server: _Server) -> None:
    server.answers = [(503, {"detail": "away"}), (500, {}), (429, {}), (200, {"files": []})]
    assert client_of(server).post("allocate", {}, token="t") == {"files": []}
    assert server.seen == [("/api/v1/workflows/w/allocate", "Bearer t")] * 4


def test_a_refused_call_is_not_repeated(server: _Server) -> None:
    server.answers = [(422, {"detail": "One field is wrong", "errors": {"site": "unknown"}})]
    with pytest.raises(Refused, match=r"One field is wrong \(site: unknown\)") as refused:
        client_of(server).post("runners", {}, token="t")
    assert (refused.value.status, len(server.seen)) == (422, 1)


def test_a_redirection_is_not_followed(server: _Server) -> None:
    server.answers = [(302, {})]
    with pytest.raises(Refused) as refused:
        client_of(server).post("runners", {}, token="t")
    assert refused.value.status == 302


def test_patience_ends(server: _Server) -> None:
    server.answers = [(503, {"detail": "away"})]
    with pytest.raises(Unreachable, match="away"):
        client_of(server, patience_sec=0).post("heartbeat", {}, token="t")
