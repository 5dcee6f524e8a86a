"""The command line client against a small HTTP server: output formats, errors, exit codes, operations."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[3]
PROGRESS = {"fraction": 0.5, "groups_done": 1, "groups_total": 2, "events_total": 100}
ROW = {
    "request_name": "first", "status": "held", "status_since": "2026-01-01T00:00:00Z", "priority": 7,
    "progress": PROGRESS, "wait_reason": "wait\x1b[31m\tfor\nsites", "last_error": "",
}  # fmt: skip
HELD = {"type": "about:blank", "status": 409, "detail": "first is held", "cure": "Release it", "errors": {}}


class Server(ThreadingHTTPServer):
    """Answers from a table of (method, path) and keeps what it was sent."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.answers: dict[tuple[str, str], tuple[int, Any]] = {}
        self.received: list[tuple[str, str, Any]] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class Handler(BaseHTTPRequestHandler):
    server: Server
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self._answer()

    def do_POST(self) -> None:
        self._answer()

    def _answer(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.server.received.append((self.command, self.path, json.loads(body) if body else None))
        path = self.path.partition("?")[0]
        status, answer = self.server.answers.get((self.command, path), (404, {"detail": "Not found"}))
        data = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *arguments: Any) -> None: ...


@pytest.fixture
def server() -> Iterator[Server]:
    made = Server()
    thread = threading.Thread(target=made.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    yield made
    made.shutdown()
    thread.join()
    made.server_close()


def wms2(
    server: Server | str, *words: str, text: str = "", **environment: str
) -> subprocess.CompletedProcess[str]:
    url = server if isinstance(server, str) else server.url
    inherited = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
    own = {"PYTHONPATH": str(ROOT / "cli"), "WMS2_URL": url, "WMS2_TOKEN": "t"}
    return subprocess.run(
        [sys.executable, "-P", "-m", "wms2_cli", *words],
        env={**inherited, **own, **environment},
        input=text,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


def test_rows_in_a_pipe_are_tab_separated_and_free_of_control_characters(server: Server) -> None:
    server.answers["GET", "/api/v1/requests"] = (200, {"results": [ROW], "next": None})
    done = wms2(server, "list", "--status", "held")
    lines = done.stdout.splitlines()
    assert lines[0].split("\t")[:2] == ["request", "status"]
    assert lines[1].split("\t")[0::6] == ["first", "wait�[31m�for sites"]
    assert "status=held" in server.received[0][1]


def test_json_is_the_body_and_quiet_the_names(server: Server) -> None:
    server.answers["GET", "/api/v1/requests"] = (200, {"results": [ROW], "next": None})
    assert json.loads(wms2(server, "--json", "list").stdout) == [ROW]
    assert wms2(server, "-q", "list").stdout == "first\n"


def test_pages_are_followed_up_to_the_limit(server: Server) -> None:
    path = "/api/v1/requests"
    server.answers["GET", path] = (200, {"results": [ROW, ROW], "next": f"{server.url}{path}?cursor=abc"})
    assert wms2(server, "-q", "list", "--limit", "3").stdout == "first\n" * 3
    assert server.received[1][1] == f"{path}?cursor=abc"


def test_an_operation_sends_its_fields_and_reason(server: Server) -> None:
    server.answers["POST", "/api/v1/requests/first/release"] = (200, {"status": "queued"})
    done = wms2(server, "release", "first", "--site-bans", "T2_CH_CERN T2_DE_DESY", "-m", "disks")
    assert (done.returncode, done.stdout) == (0, "first: release: queued\n")
    sent = {"site_bans": ["T2_CH_CERN", "T2_DE_DESY"], "reason": "disks"}
    assert server.received == [("POST", "/api/v1/requests/first/release", sent)]


def test_a_dry_run_changes_nothing_and_prints_the_effect(server: Server) -> None:
    server.answers["POST", "/api/v1/requests/first/release"] = (200, {"groups_kept": 3})
    done = wms2(server, "release", "first", "-m", "x", "--dry-run")
    assert json.loads(done.stdout) == {"groups_kept": 3}
    assert server.received[0][2]["dry_run"] is True


def test_an_operation_that_cannot_be_undone_needs_yes(server: Server) -> None:
    done = wms2(server, "fail", "first", "-m", "x")
    assert done.returncode == 2
    assert "Add --yes" in done.stderr
    assert server.received == []


def test_names_are_one_segment_of_the_path(server: Server) -> None:
    wms2(server, "stop", "../../evil?x", "-m", "x")
    assert server.received[0][1] == "/api/v1/requests/..%2F..%2Fevil%3Fx/stop"


@pytest.mark.parametrize(
    ("status", "answer", "exit_code", "words"),
    [
        (409, HELD, 1, ["first is held", "Release it"]),
        (422, {"detail": "refused", "errors": {"priority": "not a number"}}, 2, ["priority: not a number"]),
        (401, {"detail": "unknown token"}, 1, ["unknown token", "wms2 login"]),
        (503, {"detail": "the database is away"}, 3, ["the database is away"]),
        (200, b"<html>", 3, ["without JSON"]),
    ],
)
def test_problems_are_sentences_with_an_exit_code(
    server: Server, status: int, answer: Any, exit_code: int, words: list[str]
) -> None:
    server.answers["POST", "/api/v1/requests/first/stop"] = (status, answer)
    done = wms2(server, "stop", "first", "-m", "x")
    assert done.returncode == exit_code, done.stderr
    assert all(word in done.stderr for word in words), done.stderr
    assert "Traceback" not in done.stderr


def test_a_server_that_is_down_is_named() -> None:
    done = wms2("http://127.0.0.1:1", "list")
    assert done.returncode == 3
    assert "http://127.0.0.1:1 does not answer" in done.stderr


def test_login_checks_the_token_and_stores_it_for_its_owner_only(server: Server, tmp_path: Path) -> None:
    server.answers["GET", "/api/v1/me"] = (200, {"username": "ana", "role": "operator"})
    server.answers["GET", "/api/v1/requests"] = (200, {"results": [], "next": None})
    config = tmp_path / "deep" / "config.toml"
    done = wms2(server, "login", server.url, text="secret\n", WMS2_CONFIG=str(config))
    assert "logged in as ana (operator)" in done.stdout
    assert config.stat().st_mode & 0o777 == 0o600
    assert wms2(server, "--json", "list", WMS2_CONFIG=str(config), WMS2_URL="").stdout == "[]\n"


def test_no_server_is_a_usage_error_with_the_cure(tmp_path: Path) -> None:
    done = wms2("", "list", WMS2_CONFIG=str(tmp_path / "none.toml"))
    assert done.returncode == 2
    assert "wms2 login" in done.stderr


def test_submit_reads_files_and_reports_each_refusal(server: Server, tmp_path: Path) -> None:
    server.answers["POST", "/api/v1/requests"] = (201, {"request_name": "made"})
    (tmp_path / "good.json").write_text('{"RequestName": "made"}')
    (tmp_path / "bad.json").write_text("[1]")
    assert wms2(server, "submit", str(tmp_path / "good.json")).stdout == "made\n"
    assert wms2(server, "submit", "-", text='{"a": 1}').stdout == "made\n"
    refused = wms2(server, "submit", str(tmp_path / "bad.json"))
    assert refused.returncode == 2
    assert "is not a JSON object" in refused.stderr


def test_every_command_has_help(server: Server) -> None:
    done = wms2(server, "--help")
    assert done.returncode == 0
    for word in ("submit", "watch", "top", "stop", "release", "site", "schedd", "admission", "submit-draft"):
        assert f"\n  {word} " in done.stdout
    assert "--site-bans" in wms2(server, "release", "--help").stdout
