"""Every failure of an HTTP call becomes the right error of WMS2, over a real socket."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread
from typing import Any

import pytest
from requests.adapters import HTTPAdapter

from cms.http import HttpOptions, HttpRefusal, JsonService, build_session
from lab.cms_world.server import World
from wms2_project.errors import NotFound, ServiceUnavailable

QUICK = HttpOptions(retries=2, backoff_sec=0.01)
SITES = "cric/api/cms/site/query/"
SITE_QUERY = {"json": "", "preset": "data-processing"}
Lab = Callable[..., Any]


@pytest.fixture
def service(world: World) -> JsonService:
    return JsonService(service="CRIC", base_url=world.url, options=QUICK)


def status_fault(status: int, times: int | None, method: str = "*") -> list[dict[str, Any]]:
    return [{"service": "*", "kind": "status", "status": status, "times": times, "method": method}]


@pytest.mark.parametrize("status", [429, 500, 502, 503, 504])
def test_safe_call_is_repeated_until_the_service_recovers(
    service: JsonService, lab: Lab, status: int
) -> None:
    lab("PUT", "faults", status_fault(status, times=2))

    assert service.get(SITES, SITE_QUERY)["result"]


def test_service_that_stays_down_is_unavailable_by_name_path_and_status(
    service: JsonService, lab: Lab
) -> None:
    lab("PUT", "faults", status_fault(503, times=None))

    with pytest.raises(ServiceUnavailable, match=r"CRIC: GET /cric/api/cms/site/query/ answered 503"):
        service.get(SITES, SITE_QUERY)


def test_unsafe_call_is_never_repeated(service: JsonService, lab: Lab) -> None:
    lab("PUT", "faults", status_fault(503, times=5))

    with pytest.raises(ServiceUnavailable, match="503"):
        service.post("reqmgr2/data/request", body={"RequestName": "once"})

    assert lab("GET", "faults")[0]["times"] == 4


def test_silence_is_unavailable_after_the_read_timeout(world: World, lab: Lab) -> None:
    impatient = replace(QUICK, read_timeout_sec=0.2)
    service = JsonService(service="CRIC", base_url=world.url, options=impatient)
    lab("PUT", "faults", [{"service": "*", "kind": "timeout", "seconds": 30, "times": None}])
    started = time.monotonic()

    with pytest.raises(ServiceUnavailable, match="got no answer"):
        service.get(SITES, SITE_QUERY)

    assert time.monotonic() - started < 25  # it would answer after 30 s


def test_a_refused_connection_is_unavailable() -> None:
    service = JsonService(service="DBS", base_url="http://127.0.0.1:9", options=QUICK)

    with pytest.raises(ServiceUnavailable, match="DBS: GET /blocks got no answer"):
        service.get("blocks")


def test_unknown_path_is_not_found(service: JsonService) -> None:
    with pytest.raises(NotFound, match="404"):
        service.get("cric/elsewhere")


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("dbs/DBSReader/datasets?colour=blue", "unexpected parameter colour"),
        ("reqmgr2/data/request", "ask by name or by status"),
        ("cric/api/cms/site/query/?json", "expected .json&preset=data-processing"),
    ],
)
def test_refusal_carries_the_message_of_the_service(service: JsonService, path: str, words: str) -> None:
    with pytest.raises(HttpRefusal, match=words) as refused:
        service.get(path)

    assert refused.value.status == 400


@pytest.mark.parametrize("status", [302, 401, 403])
def test_unauthorised_call_has_the_cure_to_check_the_certificate(
    service: JsonService, lab: Lab, status: int
) -> None:
    lab("PUT", "faults", status_fault(status, times=1))

    with pytest.raises(HttpRefusal, match="certificate"):
        service.get(SITES, SITE_QUERY)


def test_redirect_is_not_followed(world: World) -> None:
    class Frontend(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(302)
            self.send_header("Location", f"{world.url}/lab/health")
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            return

    with HTTPServer(("127.0.0.1", 0), Frontend) as frontend:
        Thread(target=frontend.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{frontend.server_port}"
        service = JsonService(service="DBS", base_url=url, options=QUICK)

        with pytest.raises(HttpRefusal, match=r"answered 302: .*/lab/health"):
            service.get("blocks")

        frontend.shutdown()


def test_page_instead_of_json_is_unavailable(service: JsonService, lab: Lab) -> None:
    lab("PUT", "faults", status_fault(200, times=1))

    with pytest.raises(ServiceUnavailable, match="did not return JSON"):
        service.get(SITES, SITE_QUERY)


def test_wait_requested_by_the_service_is_bounded() -> None:
    adapter = build_session(QUICK).get_adapter("https://cms")

    assert isinstance(adapter, HTTPAdapter)
    assert adapter.max_retries.retry_after_max == QUICK.max_wait_sec
