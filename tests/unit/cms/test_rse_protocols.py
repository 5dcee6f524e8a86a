"""Protocols of a storage in Rucio, as prefixes for jobs."""

from __future__ import annotations

from typing import Any

import pytest

from cms.rse_protocols import storage_prefixes


def protocol(scheme: str = "davs", *, write: int = 1, **values: Any) -> dict[str, Any]:
    """Return a protocol as GET /rses/<name> of Rucio 41.5 has it."""
    operations = {"read": 1, "write": write, "delete": 1}
    third_party = {"third_party_copy_read": 1, "third_party_copy_write": 1}
    return {
        "hostname": "se.example.org",
        "scheme": scheme,
        "port": 2880,
        "prefix": "/pnfs/cms/",
        "impl": "rucio.rse.protocols.gfal.Default",
        "domains": {"lan": operations, "wan": operations | third_party},
        "extended_attributes": None,
    } | values


@pytest.mark.parametrize(
    ("given", "prefix"),
    [
        (protocol(), "davs://se.example.org:2880/pnfs/cms"),
        (protocol("https", port=443), "https://se.example.org:443/pnfs/cms"),
        (protocol("root", port=1094), "root://se.example.org:1094//pnfs/cms"),
        (protocol("root", port=0, prefix="//eos/cms"), "root://se.example.org//eos/cms"),
        (protocol(prefix="/"), "davs://se.example.org:2880"),
        (protocol(prefix=None), "davs://se.example.org:2880"),
        (protocol("file", hostname="", port=0, prefix="/storage/cms"), "/storage/cms"),
    ],
)
def test_a_protocol_becomes_a_prefix(given: dict[str, Any], prefix: str) -> None:
    assert storage_prefixes([given]) == (prefix,)


@pytest.mark.parametrize(
    "given",
    [
        protocol("mock"),
        protocol("srm"),
        protocol("gsiftp"),
        protocol(write=0),
        protocol(domains={"lan": {"read": 1, "write": 1, "delete": 1}, "wan": {}}),
        protocol(domains=None),
        protocol(hostname="not a host"),
        protocol(prefix="/a?b=c"),
        protocol(extended_attributes={"tfc": [{"path": "(.*)", "out": "/x/$1"}], "tfc_proto": "davs"}),
    ],
)
def test_a_protocol_that_jobs_cannot_use_is_left_out(given: dict[str, Any]) -> None:
    assert storage_prefixes([given]) == ()


def test_the_order_is_that_of_writing() -> None:
    found = storage_prefixes([protocol("root", write=2), protocol(write=1), protocol(write=3)])
    assert found == ("davs://se.example.org:2880/pnfs/cms", "root://se.example.org:2880//pnfs/cms")
