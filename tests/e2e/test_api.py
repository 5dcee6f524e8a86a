"""The REST interface of a running stack: invalid input is refused, a request is followed to its end."""

from __future__ import annotations

import json
import os
import random
import secrets
import shutil
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import requests

from requests_app.models import Callback
from tests.collector import Collector
from tests.e2e.conftest import Stack, setting
from tests.integration.receiver import Receiver, is_signed, receiving
from tests.waiting import until

TRACED = [  # a task, and an adapter it calls
    ("advance submitted", "DBS reader: GET"),
    ("advance planning", "schedd: "),
    ("walk pending", "DBS writer: POST"),
    ("walk pending", "Rucio: "),
    ("deliver callback", "callback: POST"),
]
SECONDS = 30.0  # each answer, on a busy machine: bounded is what matters
HOSTILE: dict[str, tuple[bytes, set[int]]] = {
    "nothing": (b"", {422}),
    "random bytes": (random.Random(7).randbytes(5000), {400}),
    "bad UTF-8": (b'{"request_name": "\xff\xfe"}', {400}),
    "half a document": (b'{"request_name": ', {400}),
    "deep arrays": (b"[" * 200_000, {400}),
    "deep objects": (b'{"a":' * 50_000 + b"1" + b"}" * 50_000, {400, 422}),
    "deep but closed": (b"[" * 400 + b"]" * 400, {400, 422}),
    "a huge number": (b'{"priority": ' + b"9" * 4000 + b"}", {400, 422}),
    "a huge exponent": (b'{"priority": 1e400}', {400}),
    "a huge negative": (b'{"priority": -' + b"9" * 300 + b"}", {422}),
    "not a number": (b'{"priority": NaN}', {400}),
    "NUL": (b'{"request_name": "a\\u0000b"}', {400}),
    "a lone surrogate": (b'{"request_name": "\\ud800"}', {400}),
    "many keys": (json.dumps({f"k{n}": n for n in range(60_000)}).encode(), {422}),
    "a megabyte and one": (b'{"a": "' + b"x" * 1_000_000 + b'"}', {413}),
    "ten megabytes": (b'{"a": "' + b"x" * 10_000_000 + b'"}', {413}),
}


@pytest.mark.parametrize("name", sorted(HOSTILE))
@pytest.mark.parametrize("path", ["requests", "requests/batch", "requests/plan", "requests/unknown/release"])
def test_garbage_is_refused_in_bounded_time(stack: Stack, name: str, path: str) -> None:
    body, expected = HOSTILE[name]
    began = time.monotonic()
    headers = {"Content-Type": "application/json", "Authorization": str(stack.api.headers["Authorization"])}
    # On a line of its own: a server may close the one on which it was sent too much.
    answer = requests.post(f"{stack.url}/api/v1/{path}", data=body, headers=headers, timeout=30)
    assert answer.status_code in expected | ({404, 422} if "unknown" in path else set()), answer.text
    assert answer.headers["Content-Type"].startswith("application/problem+json")
    assert time.monotonic() - began < SECONDS


@pytest.mark.parametrize(
    "line",
    [
        b"GET /api/v1/requests?cursor=%00%ff%fe HTTP/1.1",
        b"GET /api/v1/requests/%ff%fe HTTP/1.1",
        b"GET /api/v1/requests?" + b"a=1&" * 3000 + b" HTTP/1.1",
        b"GET /api/v1/requests?priority_min=" + b"9" * 3000 + b" HTTP/1.1",
        b"DELETE /api/v1/requests/x?reason=%00 HTTP/1.1",
        b"PATCH /api/v1/admission/config HTTP/1.1\r\nContent-Type: application/json\r\nContent-Length: -1",
        b"POST /api/v1/requests HTTP/1.1\r\nContent-Type: application/json\r\nContent-Length: 99999999999",
        b"POST /api/v1/requests HTTP/1.1\r\nContent-Type: \xff/\xfe\r\nContent-Length: 2\r\n\r\n{}",
        b"GET /api/v1/requests HTTP/1.1\r\nAuthorization: Bearer \xff\xfe",
        b"\x00\xff\xfe garbage",
    ],
)
def test_broken_http_is_a_4xx_or_a_closed_line(stack: Stack, line: bytes) -> None:
    parts = urlsplit(stack.url)
    token = stack.api.headers["Authorization"]
    bearer = b"" if b"Authorization" in line else f"Authorization: {token}\r\n".encode()  # type: ignore[str-bytes-safe]
    head, _, body = line.partition(b"\r\n\r\n")
    with socket.create_connection((parts.hostname or "", parts.port or 80), timeout=SECONDS) as line_:
        line_.sendall(head + b"\r\nHost: " + parts.netloc.encode() + b"\r\n" + bearer)
        line_.sendall(b"Connection: close\r\n\r\n" + body)
        line_.shutdown(socket.SHUT_WR)
        answer = line_.recv(200)
    if answer:
        assert answer.split(b" ")[1].startswith(b"4"), answer
    assert stack.get("livez")["status"] == "ok"


@pytest.fixture
def receiver_url(certificate: Path) -> Iterator[str]:
    """Yield the address of a receiver the stack's workers trust."""
    shutil.copy(certificate, setting("WMS2_CALLBACK_CA_BUNDLE"))
    with receiving(certificate) as url:
        yield url


@pytest.fixture
def collector() -> Iterator[Collector]:
    """Yield the collector to which the stack's processes send spans on request."""
    made = Collector(urlsplit(setting("OTEL_EXPORTER_OTLP_ENDPOINT")).port or 0)
    yield made
    made.close()


def test_a_request_is_followed_by_its_reasons_and_its_progress_to_the_end(
    stack: Stack, suffix: str, receiver_url: str, collector: Collector
) -> None:
    Receiver.answers = [500]
    caller = f"00-{secrets.token_hex(16)}-{secrets.token_hex(8)}-01"
    urgent = stack.seed(suffix)[2]
    answer = stack.api.post(
        f"{stack.url}/api/v1/requests",
        json=urgent | {"correlation_id": f"order:{suffix}", "callback_url": f"{receiver_url}/done"},
        headers={"Idempotency-Key": suffix, "X-Request-Id": f"call-{suffix}", "traceparent": caller},
        timeout=30,
    )
    assert (answer.status_code, answer.headers["X-Request-Id"]) == (201, f"call-{suffix}")
    made = answer.json()
    name = made["request_name"]
    seen = list(follow(stack, name))

    assert seen[-1]["overall_percent"] == 100.0
    assert [one["overall_percent"] for one in seen] == sorted(one["overall_percent"] for one in seen)
    assert {row["call_id"] for row in stack.status_changes(name)} == {f"call-{suffix}"}
    assert stack.get(f"requests?correlation_id=order:{suffix}")["results"][0]["request_name"] == name
    public = stack.get(f"public/requests/{made['request_id']}")
    assert (public["status"], public["result"][0]["events"] > 0) == ("completed", True)
    throughput = stack.get("metrics/throughput?hours=1&bucket_minutes=60")["buckets"]
    assert throughput[-1]["completed"] >= 1
    logged = sum(
        f"call-{suffix}" in (stack.state / "log" / log).read_text(errors="replace")
        for log in os.listdir(stack.state / "log")
        if log.startswith("worker")
    )
    assert logged, "no worker logged the id of the call that caused its work"
    assert_notified_once(name)
    assert_spans_join(collector, caller)


def assert_notified_once(name: str) -> None:
    """Check that the delivery was repeated after an outage, and not after its success."""
    delivered = Callback.objects.filter(request__request_name=name, status="delivered")
    until(delivered.exists, why="the requestor was not notified")
    assert [json.loads(body)["request_name"] for _, body in Receiver.got] == [name, name]
    assert {headers["x-wms2-delivery"] for headers, _ in Receiver.got} == {str(delivered.get().pk)}
    headers, body = Receiver.got[1]
    assert is_signed(headers, body, secret=setting("WMS2_CALLBACK_SECRET"))
    assert json.loads(body)["status"] == "completed"


def assert_spans_join(collector: Collector, caller: str) -> None:
    """Check that one trace has the caller's span, the call, its tasks in all workers, and their adapters."""
    _, trace, parent, _ = caller.split("-")

    def below(above: str, name: str) -> list[str]:
        """Return the ids of the child spans of this name."""
        return [
            span.span_id.hex()
            for span in collector.spans
            if (span.trace_id.hex(), span.parent_span_id.hex()) == (trace, above)
            and span.name.startswith(name)
        ]

    def adapter(task: str, name: str) -> bool:
        (call,) = below(parent, "POST /api/v1/requests")
        return any(below(one, name) for one in below(call, task))

    until(lambda: below(parent, "POST"), why="the call left no span")
    for task, name in TRACED:
        until(lambda: adapter(task, name), why=f"{task} is not joined to {name}")  # noqa: B023


def follow(stack: Stack, name: str) -> Iterator[dict[str, object]]:
    """Yield the progress at each poll, after a check that `/why` has every gate."""
    end = time.monotonic() + 1500
    while time.monotonic() < end:
        why = stack.get(f"requests/{name}/why")
        assert why["summary"], why
        assert why["status"] not in ("held", "failed", "aborted"), why
        yield stack.get(f"requests/{name}/progress")
        if why["status"] == "completed":
            return
        time.sleep(1)
    pytest.fail(f"{name} did not complete: {why}")


def test_a_job_that_cannot_run_anywhere_has_htcondors_analysis(stack: Stack, suffix: str) -> None:
    generated = stack.seed(suffix)[1]
    name = stack.post("requests", generated | {"Memory": 900_000, "Urgent": True})["request_name"]
    stack.wait_for(name, "active", "pilot_running")
    end = time.monotonic() + 600
    while not (why := stack.get(f"requests/{name}/why"))["idle_jobs"]:
        assert time.monotonic() < end, why
        time.sleep(1)
    analysis = why["idle_jobs"]
    assert analysis["counts"]["able"] == 0
    assert any("Memory" in one["text"] and one["slots"] == 0 for one in analysis["conditions"]), analysis
    stack.api.delete(f"{stack.url}/api/v1/requests/{name}", json={"reason": "seen"}, timeout=30)
