"""Exchanges recorded at a real Rucio 41.5, replayed at the lab's: same status, type, error and fields.

Long lists were cut after whole records when they were recorded.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import requests

from lab.cms_world.rucio_rses import build_protocol
from lab.cms_world.server import World

Ask = Callable[..., requests.Response]
RECORDED: list[dict[str, Any]] = json.loads((Path(__file__).parent / "rucio_wire.json").read_text())
TAPE = {
    "name": "T1_US_FNAL_Tape",
    "site": "T1_US_FNAL",
    "kind": "TAPE",
    "attributes": {"tier": "1", "country": "US"},
}


def shape(text: str, content_type: str) -> Any:
    """Return the fields of a JSON answer, per line where there are lines; an empty list has none."""
    if content_type == "application/x-json-stream":
        return {frozenset(json.loads(line)) for line in text.splitlines()}
    return frozenset(json.loads(text)) if content_type == "application/json" else None


def replay(
    world: World, token: str, exchange: dict[str, Any], known_ids: dict[str, str]
) -> requests.Response:
    url, body = exchange["url"], exchange["body"]
    for recorded, ours in known_ids.items():
        url, body = url.replace(recorded, ours), body.replace(recorded, ours)
    headers = {"X-Rucio-Auth-Token": token}
    target = f"{world.url}/rucio{url}"
    return requests.request(exchange["method"], target, data=body or None, headers=headers, timeout=10)


def test_lab_answers_as_the_real_rucio_did(world: World, ask: Ask, token: str) -> None:
    ask("PUT", "/lab/rses", [TAPE])
    known_ids: dict[str, str] = {}
    differences = []

    for exchange in RECORDED:
        answer = replay(world, token, exchange, known_ids)
        expected = (
            exchange["status"],
            exchange["content_type"],
            exchange["error_class"],
            shape(exchange["reply"], exchange["content_type"]),
        )
        content_type = answer.headers["Content-Type"]
        error_class = answer.headers.get("ExceptionClass")
        got = (answer.status_code, content_type, error_class, shape(answer.text, content_type))
        if got != expected:
            differences.append((exchange["what"], got, expected))
        if exchange["url"] == "/rules/" and answer.status_code == 201:
            known_ids[json.loads(exchange["reply"])[0]] = answer.json()[0]

    assert differences == []
    assert len(known_ids) == 3


def test_a_protocol_has_the_fields_that_the_real_rucio_gave_it() -> None:
    recorded = next(json.loads(one["reply"]) for one in RECORDED if one["what"] == "get_rse")["protocols"][0]
    ours = build_protocol("davs", "localhost", 1094)

    assert ours.keys() == recorded.keys()
    assert {domain: set(rights) for domain, rights in ours["domains"].items()} == {
        domain: set(rights) for domain, rights in recorded["domains"].items()
    }


@pytest.mark.parametrize("path", ["/rucio/rses/", "/rucio/rules/00", "/rucio/dids/cms/%2FA%2FB%2FRAW"])
def test_every_call_needs_a_token(ask: Ask, path: str) -> None:
    for headers in ({}, {"X_Rucio_Auth_Token": "made-up"}):
        answer = ask("GET", path, **headers)

        assert (answer.status_code, answer.headers["ExceptionClass"]) == (401, "CannotAuthenticate")


@pytest.mark.parametrize("wrong", ["X_Rucio_Account", "X_Rucio_Username", "X_Rucio_Password"])
def test_no_token_without_the_right_credentials(world: World, ask: Ask, wrong: str) -> None:
    known = world.credentials
    right = {
        "X_Rucio_Account": known.account,
        "X_Rucio_Username": known.username,
        "X_Rucio_Password": known.password,
    }

    answer = ask("GET", "/rucio/auth/userpass", **{**right, wrong: "wrong"})

    assert answer.status_code == 401
    assert "X-Rucio-Auth-Token" not in answer.headers


def test_ping_needs_no_token(ask: Ask) -> None:
    assert ask("GET", "/rucio/ping").json() == {"version": "41.5.1"}
