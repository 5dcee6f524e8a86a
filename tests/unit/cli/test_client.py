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
from wms2_cli.api import Api
from wms2_cli.config import Server as Account
from wms2_cli.errors import CliError

ROOT = Path(__file__).resolve().parents[3]
PROGRESS = {"fraction": 0.5, "groups_done": 1, "groups_total": 2, "events_total": 100}
ROW = {
    "request_name": "first", "status": "held", "status_since": "2026-01-01T00:00:00Z", "priority": 7,
    "progress": PROGRESS, "wait_reason": "wait\x1b[31m\tfor\nsites", "last_error": "",
}  # fmt: skip
WRONG_USE, UNREACHABLE = 2, 3
HELD = {"type": "about:blank", "status": 409, "detail": "first is held", "cure": "Release it", "errors": {}}


class Server(ThreadingHTTPServer):
    """Answers from a table of (method, path) and keeps the requests."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.answers: dict[tuple[str, str], tuple[int, Any]] = {}
        self.messages: dict[str, str] = {}
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

    def do_PATCH(self) -> None:
        self._answer()

    def _answer(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.server.received.append((self.command, self.path, json.loads(body) if body else None))
        path = self.path.partition("?")[0]
        status, answer = self.server.answers.get((self.command, path), (404, {"detail": "Not found"}))
        data = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
        self.send_response(status)
        if message := self.server.messages.get(path):
            self.send_header("WMS2-Message", message)
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
    assert lines[1].split("\t")[2] == ROW["status_since"]
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


CHAIN = {
    "id": 7, "template": "muons", "template_version": 2, "dataset_name": "/A/B-v1/RAW", "status": "held",
    "status_since": ROW["status_since"], "wait_reason": "skim: request r is held",
    "steps": [{"name": "skim", "status": "held", "tries": 1, "request_name": "r", "wait_reason": ""}],
    "datasets": [{"dataset_name": "/A/B-skim-v1/AOD", "role": "final"}],
}  # fmt: skip
WHY = {
    "summary": "skim: request r is held",
    "steps": [
        {
            "step": "skim", "status": "held", "reason": "held", "request_summary": "no site",
            "remedy": "Release the request",
        }
    ],
}  # fmt: skip


def test_one_chain_is_shown_and_explained(server: Server) -> None:
    server.answers["GET", "/api/v1/chains/7"] = (200, CHAIN)
    server.answers["GET", "/api/v1/chains/7/why"] = (200, WHY)
    assert wms2(server, "chain", "show", "7").stdout.splitlines()[1].split("\t")[:4] == [
        "skim", "held", "1", "r",
    ]  # fmt: skip
    assert wms2(server, "chain", "why", "7").stdout.splitlines()[1] == (
        "skim\theld\tno site\tRelease the request"
    )
    assert json.loads(wms2(server, "--json", "chain", "show", "7").stdout) == CHAIN
    assert wms2(server, "-q", "chain", "why", "7").stdout == "skim\n"
    assert wms2(server, "chain", "show", "8").returncode == 1


def test_the_runners_of_a_request_are_those_of_its_workflow(server: Server) -> None:
    row = {
        "id": "r", "node": "proc_000003", "site": "T2_CH_CERN", "state": "ended", "outcome": "failed",
        "files_lent": 3, "files_processed": 1, "heartbeat_at": "2031-01-01T00:00:00Z", "exit_code": 8022,
        "message": "checksum differs",
    }  # fmt: skip
    server.answers["GET", "/api/v1/requests/first"] = (200, {"workflow": {"id": "w"}})
    server.answers["GET", "/api/v1/workflows/w/runners"] = (200, {"results": [row], "next": None})
    printed = wms2(server, "runners", "first", "--state", "ended").stdout
    for shown in ("proc_000003", "T2_CH_CERN", "failed", "1/3", "8022", "checksum differs"):
        assert shown in printed


def test_every_list_follows_its_pages(server: Server) -> None:
    path = "/api/v1/sites"
    server.answers["GET", path] = (
        200,
        {"results": [{"name": "T2"}], "next": f"{server.url}{path}?cursor=abc"},
    )
    assert wms2(server, "site", "list", "-n", "3", "-q").stdout == "T2\n" * 3


def test_an_operation_sends_its_fields_and_reason(server: Server) -> None:
    server.answers["POST", "/api/v1/requests/first/release"] = (200, {"status": "queued"})
    server.messages["/api/v1/requests/first/release"] = "Released by %C3%81na%1B: it waits."
    done = wms2(server, "release", "first", "--site-bans", "T2_CH_CERN T2_DE_DESY", "-m", "disks")
    assert (done.returncode, done.stdout) == (0, "first: Released by Ána�: it waits.\n")
    sent = {"site_bans": ["T2_CH_CERN", "T2_DE_DESY"], "reason": "disks"}
    assert server.received == [("POST", "/api/v1/requests/first/release", sent)]


def test_an_operation_prints_its_body_as_json_or_the_id(server: Server) -> None:
    server.answers["POST", "/api/v1/alerts/7/acknowledge"] = (200, {"id": 7, "message": "it takes long"})
    server.messages["/api/v1/alerts/7/acknowledge"] = "Alert 7 is acknowledged."
    words = ("alert", "acknowledge", "7", "-m", "known")
    assert wms2(server, *words).stdout == "7: Alert 7 is acknowledged.\n"
    assert json.loads(wms2(server, "--json", *words).stdout)["message"] == "it takes long"
    assert wms2(server, "-q", *words).stdout == "7\n"


def test_a_result_that_names_its_subject_is_not_preceded_by_it(server: Server) -> None:
    server.answers["POST", "/api/v1/sites/T2/drain"] = (200, {"name": "T2"})
    server.messages["/api/v1/sites/T2/drain"] = "T2 accepts no new work."
    assert wms2(server, "site", "drain", "T2", "-m", "cooling").stdout == "T2 accepts no new work.\n"


def test_the_screen_is_refused_without_a_terminal(server: Server) -> None:
    done = wms2(server, "top")
    assert (done.returncode, done.stdout) == (WRONG_USE, "")
    assert done.stderr == "wms2: top needs a terminal\nUse `wms2 list` or `wms2 watch`\n"


@pytest.mark.parametrize(
    ("document", "words"),
    [
        ("/none.json", "/none.json cannot be read: No such file or directory\n"),
        ("-", "- is not JSON: Expecting"),
    ],
)
def test_a_document_that_cannot_be_used_is_explained(server: Server, document: str, words: str) -> None:
    done = wms2(server, "submit", document, text="{bad")
    assert done.returncode == WRONG_USE
    assert done.stderr.startswith(f"wms2: {words}")


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


def test_a_name_is_one_segment_of_the_path(server: Server) -> None:
    wms2(server, "stop", "../../evil?x", "-m", "x")
    assert server.received[0][1] == "/api/v1/requests/..%2F..%2Fevil%3Fx/stop"


@pytest.mark.parametrize(
    ("status", "answer", "exit_code", "words"),
    [
        (409, HELD, 1, ["first is held", "Release it"]),
        (422, {"detail": "refused", "errors": {"priority": "priority: is it?"}}, 2, ["\n  priority: is it?"]),
        (401, {"detail": "unknown token"}, 1, ["unknown token", "wms2 login"]),
        (503, {"detail": "the database is away"}, 3, ["the database is away"]),
        (200, b"<html>", 3, ["without JSON"]),
    ],
)
def test_a_problem_is_a_sentence_with_an_exit_code(
    server: Server, status: int, answer: Any, exit_code: int, words: list[str]
) -> None:
    server.answers["POST", "/api/v1/requests/first/stop"] = (status, answer)
    with pytest.raises(CliError) as raised:
        Api(Account(server.url, "t")).call("POST", "requests/first/stop", {"reason": "x"})
    assert raised.value.exit_code == exit_code
    assert all(word in str(raised.value) for word in words)


def test_an_error_is_printed_without_a_traceback(server: Server) -> None:
    server.answers["POST", "/api/v1/requests/first/stop"] = (409, HELD)
    done = wms2(server, "stop", "first", "-m", "x")
    assert (done.returncode, done.stderr) == (1, "wms2: first is held\nRelease it\n")


def test_a_server_that_is_down_is_named() -> None:
    done = wms2("http://127.0.0.1:1", "list")
    assert done.returncode == 3
    assert "http://127.0.0.1:1 does not answer" in done.stderr


@pytest.mark.parametrize(
    "url", ["wms2.example.org", "ftp://host", "https://", "http://host:port", "http://h:0"]
)
def test_text_that_is_not_a_url_is_refused(url: str) -> None:
    with pytest.raises(CliError, match="is not a URL such as"):
        Api(Account(url, "t"))


def test_a_ca_file_that_cannot_be_read_is_named() -> None:
    with pytest.raises(CliError, match=r"/none\.pem cannot be read"):
        Api(Account("https://127.0.0.1:1", "t", ca_file="/none.pem")).get("me")


@pytest.mark.parametrize(("status", "words"), [(301, "redirects to"), (200, "answered 200 without JSON")])
def test_answers_of_other_servers_are_explained(server: Server, status: int, words: str) -> None:
    server.answers["GET", "/api/v1/me"] = (status, b"")
    with pytest.raises(CliError, match=words):
        Api(Account(server.url, "t")).get("me")


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


def test_one_of_several_servers_is_chosen_by_its_name(server: Server, tmp_path: Path) -> None:
    server.answers["GET", "/api/v1/requests"] = (200, {"results": [], "next": None})
    config = tmp_path / "config.toml"
    config.write_text(
        'default = "away"\n[servers.away]\nurl = "http://127.0.0.1:1"\ntoken = "t"\n'
        f'[servers.lab]\nurl = "{server.url}"\ntoken = "t"\n'
    )
    given = {"WMS2_CONFIG": str(config), "WMS2_URL": "", "WMS2_TOKEN": ""}
    assert wms2("", "--server", "lab", "--json", "list", **given).stdout == "[]\n"
    assert wms2("", "--json", "list", **given).returncode == UNREACHABLE
    unknown = wms2("", "--server", "moon", "list", **given)
    assert unknown.returncode == WRONG_USE
    assert "away, lab" in unknown.stderr


def test_the_shell_completes_commands(server: Server) -> None:
    words = {"COMP_WORDS": "wms2 rel", "COMP_CWORD": "1", "_WMS2_COMPLETE": "complete_bash"}
    assert wms2(server, **words).stdout.split() == ["release"]


def test_submit_reads_files_and_reports_each_refusal(server: Server, tmp_path: Path) -> None:
    server.answers["POST", "/api/v1/requests"] = (201, {"request_name": "made"})
    (tmp_path / "good.json").write_text('{"RequestName": "made"}')
    (tmp_path / "bad.json").write_text("[1]")
    assert wms2(server, "submit", str(tmp_path / "good.json")).stdout == "made\n"
    assert wms2(server, "submit", "-", text='{"a": 1}').stdout == "made\n"
    refused = wms2(server, "submit", str(tmp_path / "bad.json"))
    assert refused.returncode == 2
    assert "is not a JSON object" in refused.stderr


def test_a_flag_can_be_cleared(server: Server) -> None:
    server.answers["PATCH", "/api/v1/admission/config"] = (200, {"paused": False})
    assert wms2(server, "admission", "edit", "--no-paused", "-m", "x").returncode == 0
    assert server.received[0][2] == {"paused": False, "reason": "x"}


def test_quick_commands_do_not_import_typer(server: Server) -> None:
    server.answers["GET", "/api/v1/requests"] = (200, {"results": [ROW], "next": None})
    script = "import sys, wms2_cli.quick as q; q.run_quickly(['list']); sys.exit('typer' in sys.modules)"
    own = {"PYTHONPATH": str(ROOT / "cli"), "WMS2_URL": server.url, "WMS2_TOKEN": "t"}
    done = subprocess.run([sys.executable, "-P", "-c", script], env=own, capture_output=True, check=False)
    assert (done.returncode, done.stdout.count(b"first")) == (0, 1), done.stderr


@pytest.mark.parametrize(("path", "words"), [("docs/cli.md", []), ("cli/wms2.1", ["--man"])])
def test_the_reference_is_that_of_the_commands(path: str, words: list[str]) -> None:
    printed = wms2("http://127.0.0.1:1", "reference", *words).stdout
    assert (ROOT / path).read_text() == printed, f"run ./wms2 cli reference {' '.join(words)} > {path}"


def test_every_command_has_help(server: Server) -> None:
    done = wms2(server, "--help")
    assert done.returncode == 0
    for word in ("submit", "watch", "top", "stop", "release", "site", "schedd", "admission", "submit-draft"):
        assert f"\n  {word} " in done.stdout
    assert "--site-bans" in wms2(server, "release", "--help").stdout
