"""Ports: kept over restarts, never shared, refused with a message."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from lab.errors import LabError
from lab.ports import RANGE, PortBook


@pytest.fixture
def taken() -> Iterator[int]:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        sock.listen()
        yield sock.getsockname()[1]


def test_a_name_keeps_its_port_from_start_to_start(tmp_path: Path) -> None:
    book = PortBook(tmp_path / "ports.json")
    first = book.pick("web")
    book.close()

    assert PortBook(tmp_path / "ports.json").pick("web") == first


def test_two_stacks_never_get_the_same_port_before_they_listen(tmp_path: Path) -> None:
    one = PortBook(tmp_path / "one.json")
    port = one.pick("web")
    (tmp_path / "two.json").write_text(json.dumps({"web": port}))

    assert PortBook(tmp_path / "two.json").pick("web") != port


def test_a_taken_preferred_port_is_passed_over(tmp_path: Path, taken: int) -> None:
    port = PortBook(tmp_path / "ports.json").pick("web", preferred=taken)

    assert port != taken
    assert port in RANGE


def test_a_free_preferred_port_is_taken(tmp_path: Path) -> None:
    scout = PortBook(tmp_path / "scout.json")
    free = scout.pick("x")
    scout.close()

    assert PortBook(tmp_path / "ports.json").pick("web", preferred=free) == free


def test_a_requested_port_is_given_or_refused_with_the_cure(tmp_path: Path, taken: int) -> None:
    book = PortBook(tmp_path / "ports.json")

    with pytest.raises(LabError) as refused:
        book.insist("web", taken, setting="WMS2_PORT")

    assert str(taken) in str(refused.value)
    assert "WMS2_PORT" in str(refused.value)
    assert "unset it" in str(refused.value)


def test_a_number_that_is_no_port_is_refused(tmp_path: Path) -> None:
    with pytest.raises(LabError):
        PortBook(tmp_path / "ports.json").insist("web", 99999, setting="WMS2_PORT")


@pytest.mark.parametrize("torn", ["", "{", "[1]", '{"web": "eighty"}'])
def test_a_torn_file_is_begun_anew(tmp_path: Path, torn: str) -> None:
    (tmp_path / "ports.json").write_text(torn)

    assert PortBook(tmp_path / "ports.json").pick("web") in RANGE
