"""Invalid input of jobs, which are untrusted, is refused with the name of the field and changes nothing."""

from __future__ import annotations

import ssl
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from dags_app.models import InputFile, Runner, RunnerOutput, Workflow
from requests_app.states import RequestStatus
from sandbox.pull.client import Client, Unreachable
from tests.integration.factories import make_claim, make_request
from tests.integration.pull.factories import CERN, FNAL, make_pull_workflow
from tests.integration.pull.jobs import Job, output

pytestmark = pytest.mark.django_db


@pytest.fixture
def workflow(sites: list[str]) -> Workflow:
    made = make_pull_workflow(places=[[CERN]] * 5)
    make_claim(made, made.output_datasets[0])
    make_request(workflow=made, status=RequestStatus.ACTIVE)
    return made


@pytest.fixture
def job(workflow: Workflow) -> Job:
    """Return a runner that holds two files."""
    made = Job(workflow)
    made.start()
    made.allocate(2)
    return made


def rows() -> list[Any]:
    """Return all rows that calls of runners change."""
    return [
        list(Runner.objects.order_by("pk").values_list("pk", "state", "calls", "files_lent")),
        list(InputFile.objects.order_by("pk").values_list("pk", "state", "attempts", "runner")),
        list(RunnerOutput.objects.order_by("pk").values_list("name", "state", "site")),
    ]


BAD: list[tuple[str, dict[str, Any], str]] = [
    ("runners", {"node": "../proc"}, "node"),
    ("runners", {"node": "proc_000001\n"}, "node"),
    ("runners", {"attempt": -1}, "attempt"),
    ("runners", {"attempt": "x"}, "attempt"),
    ("runners", {"instance": "1"}, "instance"),
    ("runners", {"htcondor_id": "1.0; rm"}, "htcondor_id"),
    ("runners", {"site": "CERN"}, "site"),
    ("runners", {"site": "T2_XX_Unknown"}, "site"),
    ("runners", {"slot": "a b"}, "slot"),
    ("runners", {"seconds_left": 10**9}, "seconds_left"),
    ("runners", {"workflow": "other"}, "workflow"),
    ("heartbeat", {"removed": ["x"]}, "removed[0]"),
    ("heartbeat", {"removed": "x"}, "removed"),
    ("allocate", {"count": 0}, "count"),
    ("allocate", {"count": 21}, "count"),
    ("allocate", {"count": True}, "count"),
    ("allocate", {"call": "x"}, "call"),
    ("allocate", {"call": None}, "call"),
    ("record", {"processed": None}, "processed"),
    ("record", {"processed": ["/store/data/../x.root"]}, "processed[0]"),
    ("record", {"processed": ["/store/data/other.root"]}, "processed"),
    ("record", {"exit_code": 1}, "exit_code"),
    ("record", {"outputs": [output("a.txt")]}, "outputs[0].name"),
    ("record", {"outputs": [output("b.root"), output(".root")]}, "outputs[1].name"),
    ("record", {"outputs": [output("a.root", events=-1)]}, "outputs[0].events"),
    ("record", {"outputs": [output("a.root", adler32="ABCDEFGH")]}, "outputs[0].adler32"),
    ("record", {"outputs": [output("a.root", lumis=[[1, 1, 2**32]])]}, "outputs[0].lumis[0][2]"),
    ("record", {"outputs": [output("a.root", lfn="/store/x")]}, "outputs[0].lfn"),
    ("record", {"outputs": {"name": "a.root"}}, "outputs"),
    ("confirm", {"outputs": []}, "outputs"),
    ("confirm", {"outputs": [{"name": "a.root", "site": CERN}] * 2}, "outputs"),
    ("confirm", {"outputs": [{"name": "b.root", "site": CERN}]}, "outputs"),
    ("confirm", {"outputs": [{"name": "a.root", "site": "T2_DE_DESY"}]}, "outputs[0].site"),
    ("confirm", {"outputs": [{"name": "a.root", "site": "nowhere"}]}, "outputs[0].site"),
    ("abort", {"reason": ""}, "reason"),
    ("abort", {"reason": "x" * 1001}, "reason"),
    ("abort", {"exit_code": 10**7}, "exit_code"),
    ("abort", {"removed": ["../x"]}, "removed[0]"),
]


def good_body(job: Job, call: str) -> dict[str, Any]:
    held = list(job.workflow.input_files.filter(state="assigned").values_list("lfn", flat=True))
    bodies: dict[str, dict[str, Any]] = {
        "runners": job.start_body | {"instance": str(uuid4()), "node": "proc_000001"},
        "heartbeat": {"removed": []},
        "allocate": {"count": 1, "call": str(uuid4())},
        "record": {"processed": held[:1], "outputs": [output("a.root")]},
        "confirm": {"outputs": [{"name": "a.root", "site": CERN}]},
        "abort": {"reason": "failed", "exit_code": 1},
    }
    return bodies[call]


def token_of(job: Job, call: str) -> str:
    if call == "runners":
        return job.token
    return str(job.started["files_token" if call == "allocate" else "runner_token"])


@pytest.mark.parametrize(("call", "changes", "field"), BAD)
def test_a_bad_field_is_named_and_nothing_changes(
    job: Job, call: str, changes: dict[str, Any], field: str
) -> None:
    if call == "confirm":
        job.call("record", good_body(job, "record"))
    before = rows()
    answer = job.post(call, good_body(job, call) | changes, token=token_of(job, call), expect=422)
    assert list(answer["errors"]) == [field], answer
    assert rows() == before


@pytest.mark.parametrize("call", ["runners", "heartbeat", "allocate", "record", "confirm", "abort"])
@pytest.mark.parametrize(
    ("body", "status"), [("{", 400), ("[]", 422), ('"x"', 422), (f'{{"a": "{"x" * 1_000_000}"}}', 413)]
)
def test_a_body_that_is_no_object_or_too_large_is_refused(
    job: Job, call: str, body: str, status: int
) -> None:
    before = rows()
    answer = job.client.post(
        f"/api/v1/workflows/{job.workflow.pk}/{call}", body, content_type="application/json",
        HTTP_AUTHORIZATION=f"Bearer {token_of(job, call)}",
    )  # fmt: skip
    assert answer.status_code == status, answer.content
    assert rows() == before


def test_a_file_of_another_runner_cannot_be_recorded(job: Job) -> None:
    other = Job(job.workflow, node="proc_000001")
    other.start()
    (file,) = other.allocate()
    answer = job.record([file["lfn"]], [output("a.root")], expect=422)
    assert "is not lent to this runner" in answer["errors"]["processed"]


@pytest.mark.parametrize(
    ("changes", "message"),
    [({"size_bytes": 3}, "3 were recorded"), ({"adler32": "00000001"}, "00000001 was recorded")],
)
def test_a_size_or_checksum_that_differs_on_the_storage_is_refused(
    job: Job, settings: Any, changes: dict[str, Any], message: str
) -> None:
    settings.CHECK_OUTPUTS = True
    body = good_body(job, "record") | {"outputs": [output("a.root", **changes)]}
    uploaded = job.upload(job.call("record", body), CERN)
    before = rows()
    answer = job.confirm(uploaded, expect=422)
    assert message in answer["errors"]["outputs[0].name"]
    assert rows() == before


def test_a_missing_output_is_refused(job: Job, settings: Any) -> None:
    settings.CHECK_OUTPUTS = True
    job.call("record", good_body(job, "record"))
    answer = job.confirm([{"name": "a.root", "site": CERN}], expect=422)
    assert f"a.root is not on the storage of {CERN}" in answer["errors"]["outputs[0].name"]


def test_tokens_of_an_ended_runner_are_refused(job: Job) -> None:
    bodies = {call: good_body(job, call) for call in ("heartbeat", "allocate", "record", "confirm")}
    job.call("record", bodies["record"])
    job.abort()
    for call, body in bodies.items():
        answer = job.post(call, body, token=token_of(job, call), expect=410)
        assert "the runner has ended as failed: exit code 1" in answer["detail"]


def test_jobs_have_limits_of_their_own(job: Job, settings: Any) -> None:
    """Limits of users count by address, and thousands of jobs of a site share one."""
    rates = dict.fromkeys(settings.THROTTLE_RATES, "1/hour")
    settings.THROTTLE_RATES = rates | {"job": "3/hour"}
    other = Job(job.workflow, node="proc_000001", site=FNAL)
    other.start()
    for _ in range(3):
        job.call("heartbeat", {})
    job.call("heartbeat", {}, expect=429)
    assert int(job.answer.headers["Retry-After"]) > 0
    other.call("heartbeat", {})


class _Answering(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"{}")

    def log_message(self, *_: Any) -> None:
        """Log nothing."""


@pytest.fixture
def https(certificate: Path) -> Iterator[str]:
    """Yield the address of a server with a self-signed certificate."""
    server = HTTPServer(("127.0.0.1", 0), _Answering)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"https://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


def test_a_job_sends_its_token_to_no_server_whose_certificate_is_unknown(
    https: str, certificate: Path
) -> None:
    with pytest.raises(Unreachable, match="CERTIFICATE_VERIFY_FAILED"):
        Client(https, "w", patience_sec=0).post("runners", {}, token="t")
    assert Client(https, "w", str(certificate)).post("runners", {}, token="t") == {}
