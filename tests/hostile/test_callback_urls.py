"""A requestor's callback reaches public addresses at the agreed ports and nothing else."""

from __future__ import annotations

import socket
from typing import Any

import pytest
from rest_framework.test import APIClient

from cms.callback import CallbackRefused, public_address
from tests.integration.factories import DOCUMENT

INSIDE = [
    "10.0.0.1", "127.0.0.1", "169.254.169.254", "100.64.0.1", "0.0.0.0", "224.0.0.1", "255.255.255.255",
    "::1", "fe80::1", "fc00::1", "fec0::1", "ff02::1", "::ffff:10.0.0.1", "::ffff:8.8.8.8", "::a00:1",
    "64:ff9b::a00:1", "64:ff9b::808:808", "64:ff9b:1::a00:1", "2002:a00:1::1", "2001:0:a00:1::1",
]  # fmt: skip


def resolve_to(monkeypatch: pytest.MonkeyPatch, *addresses: str) -> None:
    found = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, 443)) for address in addresses]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *args, **kwargs: found)


@pytest.mark.parametrize("address", INSIDE)
def test_an_address_that_may_lead_inside_is_refused(monkeypatch: pytest.MonkeyPatch, address: str) -> None:
    resolve_to(monkeypatch, "93.184.215.14", address)
    with pytest.raises(CallbackRefused, match="not a public address"):
        public_address("example.org", 443, allow_private=False)


@pytest.mark.parametrize("address", ["93.184.215.14", "2606:4700::1111"])
def test_a_public_address_is_called(monkeypatch: pytest.MonkeyPatch, address: str) -> None:
    resolve_to(monkeypatch, address)
    assert public_address("example.org", 443, allow_private=False) == address


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("url", "status"),
    [
        ("https://one.example.org/x", 201),
        ("https://one.example.org:443/x", 201),
        ("https://one.example.org:6443/x", 422),
        ("https://one.example.org:22/x", 422),
        ("https://two.example.org:8443/x", 201),
        ("https://two.example.org/x", 422),
        ("https://two.example.org:22/x", 422),
    ],
)
def test_only_the_agreed_ports_are_accepted(
    requestor: APIClient, settings: Any, url: str, status: int
) -> None:
    settings.CALLBACK_ANY_PORT = False
    settings.CALLBACK_HOSTS, settings.CALLBACK_SECRET = ["one.example.org", "two.example.org:8443"], "x" * 40
    answer = requestor.post("/api/v1/requests", DOCUMENT | {"callback_url": url})
    assert answer.status_code == status, answer.json()
