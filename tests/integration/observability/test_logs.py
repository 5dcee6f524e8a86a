"""Logs: one JSON object per line, the caller's request id on all work of a call, and no secrets."""

from __future__ import annotations

import json
import logging
import sys
from typing import Any

import pytest
from rest_framework.test import APIClient

from outputs_app.pipeline import Step
from outputs_app.services import block_pipeline
from requests_app.lifecycle import advance as advancing
from requests_app.models import Request
from tests.integration.factories import DOCUMENT, make_block, make_group, make_round
from wms2_project.observation.logs import HIDDEN, JsonFormatter, LineFormatter, bind, redacted

FORMATTERS = [LineFormatter(), JsonFormatter()]
JWT = "eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJhbmEifQ.c2lnbmF0dXJl"
SECRETS = [
    ("Authorization: Bearer wms2_abcdefghijklmnopqrstuvwxyz", "wms2_abc"),
    ("issued wms2_abcdefghijklmnopqrstuvwxyz-0123 to ana", "wms2_abc"),
    (f"the token {JWT} was refused", "eyJ"),
    ("connect to postgres://wms2:s3cr3tpw@db:5432/wms2 failed", "s3cr3tpw"),
    ("redis://:hunter22@redis:6379/0", "hunter22"),
    ("password=s3cr3tpw user=ana", "s3cr3tpw"),
    ("{'rucio_password': 's3cr3tpw'}", "s3cr3tpw"),
    ('{"SECRET_KEY": "s3cr3tpw"}', "s3cr3tpw"),
    ("X-Rucio-Auth-Token: s3cr3tpw-x509", "s3cr3tpw"),
    ("api_key=s3cr3tpw", "s3cr3tpw"),
]


def record(message: str, **values: Any) -> logging.LogRecord:
    return logging.makeLogRecord({"msg": message, "levelname": "INFO", "name": "wms2", **values})


@pytest.mark.parametrize("formatter", FORMATTERS)
@pytest.mark.parametrize(("message", "secret"), SECRETS)
def test_a_secret_never_reaches_the_log(formatter: logging.Formatter, message: str, secret: str) -> None:
    line = formatter.format(record(message))
    assert secret not in line
    assert HIDDEN in line


@pytest.mark.parametrize("formatter", FORMATTERS)
def test_nor_through_a_traceback_or_a_bound_fact(formatter: logging.Formatter) -> None:
    try:
        raise ValueError("password=s3cr3tpw")
    except ValueError:
        failed = record("it failed", exc_info=sys.exc_info())
    with bind(note="token=s3cr3tpw"):
        line = formatter.format(failed)
    assert "s3cr3tpw" not in line
    assert "ValueError" in line


@pytest.mark.parametrize(
    "text",
    [
        "the token is unknown",
        "requests/ana_Muons: 3 tokens left",
        "http://127.0.0.1:8000/api/v1/tokens",
        "wms2_project.access.audit sealed 3",
        "token: 12",
    ],
)
def test_ordinary_words_stay(text: str) -> None:
    assert redacted(text) == text


def test_a_json_line_is_one_object_with_the_bound_facts() -> None:
    with bind(request="ana_Muons", request_id="call-7", empty=""):
        line = JsonFormatter().format(record("two\nlines %s", args=("x",), levelname="WARNING"))
    assert "\n" not in line
    body = json.loads(line)
    assert body.pop("time").endswith("+00:00")
    assert body == {
        "level": "WARNING",
        "logger": "wms2",
        "message": "two\nlines x",
        "request": "ana_Muons",
        "request_id": "call-7",
    }


@pytest.mark.django_db
def test_the_work_a_call_causes_is_logged_under_its_id(
    requestor: APIClient, operator: APIClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines: list[dict[str, str]] = []

    def work(*given: Any) -> None:
        lines.append(json.loads(JsonFormatter().format(record("working"))))
        raise RuntimeError("seen enough")

    monkeypatch.setitem(advancing.handlers.HANDLERS, "submitted", work)
    monkeypatch.setitem(block_pipeline.STEPS, Step.REGISTER, work)
    name = DOCUMENT["request_name"]
    requestor.post("/api/v1/requests", DOCUMENT, headers={"X-Request-Id": "call-7"})
    row = Request.objects.get()
    advancing.advance(row.pk)
    edit = {"priority": 7, "reason": "conference"}
    operator.patch(f"/api/v1/requests/{name}", edit, headers={"X-Request-Id": "call-8"})
    advancing.advance(row.pk)
    block = make_block(make_group(make_round(row.workflow)))
    block_pipeline.advance_block(block.pk)
    assert [(line["request"], line["request_id"]) for line in lines] == [
        (name, "call-7"), (name, "call-8"), (name, "call-8")
    ]  # fmt: skip
    assert lines[2]["block"] == block.block_name
