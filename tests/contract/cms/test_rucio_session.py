"""Sessions with Rucio: logins, lost tokens, and nothing read from or left in the home directory."""

from __future__ import annotations

import getpass
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from rucio_peers import RucioPeer

from cms.rucio import RucioClient
from cms.rucio_session import connect
from wms2_project.errors import ServiceRejected, ServiceUnavailable


def test_wrong_password_is_rejected_with_a_cure(peer: RucioPeer) -> None:
    client = RucioClient(replace(peer.config, password="wrong"))

    with pytest.raises(ServiceRejected, match="password"):
        client.rses("*")


def test_lost_token_is_renewed_by_itself(peer: RucioPeer) -> None:
    client = RucioClient(peer.config)
    client.rses("*")

    client._client.auth_token = "forgotten"

    assert peer.source in client.rses("*")


def test_no_configuration_file_is_needed_and_nothing_is_left_behind(
    peer: RucioPeer, no_rucio_home: Path
) -> None:
    assert peer.source in RucioClient(peer.config).rses("*")

    assert list(no_rucio_home.iterdir()) == []


def test_leftover_token_file_is_not_used(peer: RucioPeer, no_rucio_home: Path) -> None:
    left = no_rucio_home / f"token_{getpass.getuser()}" / f"auth_token_for_account_{peer.config.account}"
    left.parent.mkdir()
    left.write_text(connect(peer.config).auth_token)

    with pytest.raises(ServiceRejected, match="password"):
        RucioClient(replace(peer.config, password="wrong")).rses("*")


def test_command_line_of_the_process_stays_as_it_is(peer: RucioPeer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["/usr/bin/celery", "worker"])

    RucioClient(peer.config).rses("*")

    assert sys.argv == ["/usr/bin/celery", "worker"]


def test_server_that_is_not_there_is_unavailable(peer: RucioPeer) -> None:
    nowhere = "http://127.0.0.1:9"
    client = RucioClient(replace(peer.config, url=nowhere, auth_url=nowhere))

    with pytest.raises(ServiceUnavailable):
        client.rses("*")
