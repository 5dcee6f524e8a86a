"""Prefixes of storage: which are accepted, which apply to a site, and how jobs read them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from sandbox.jsonfile import ManifestError, ManifestMissing
from sandbox.places import MAX_PREFIXES, Places, prefix_problem, prefixes_problem, read_places

CERN, FNAL = "T2_CH_CERN", "T1_US_FNAL"
GOOD = [
    "/storage/{site}",
    "/",
    "/with blanks/and=signs",
    "file:///storage",
    "davs://se.example.org",
    "davs://se.example.org:2880/pnfs/example.org/cms/",
    "https://127.0.0.1/cms/{site}",
    "root://se.example.org:1094//eos/cms",
    "roots://se.example.org//eos/cms",
]
BAD = [
    None, 7, "", "storage", "relative/path", "file://relative", "http://se.example.org/cms", "ftp://se/cms",
    "davs:/se/cms", "davs://", "davs:///cms", "davs://se:port/cms", "davs://user:password@se/cms",
    "davs://se/cms?authz=x", "davs://se/cms#x", "davs://se/a b", "davs://se/../etc", "/storage/../etc",
    "/storage\n", "/storage\0", "x" * 501,
]  # fmt: skip


@pytest.mark.parametrize("prefix", GOOD)
def test_a_good_prefix_is_accepted(prefix: str) -> None:
    assert prefix_problem(prefix) == ""


@pytest.mark.parametrize("prefix", BAD)
def test_a_bad_prefix_is_refused(prefix: object) -> None:
    assert prefix_problem(prefix)


@pytest.mark.parametrize(
    "prefixes", [None, [], "davs://se/cms", ["/a"] * (MAX_PREFIXES + 1), ["/a", "b"], [["/a"]]]
)
def test_a_list_of_prefixes_is_short_and_good(prefixes: object) -> None:
    assert prefixes_problem(prefixes)


def test_a_site_has_its_own_prefixes_or_the_default() -> None:
    places = Places({CERN: ("davs://a/cms/", "/backup/{site}")}, default="/storage/{site}")
    assert places.prefixes(CERN) == ("davs://a/cms", f"/backup/{CERN}")
    assert places.prefixes(FNAL) == (f"/storage/{FNAL}",)
    assert Places().prefixes(FNAL) == ()


def test_jobs_read_the_written_manifest(tmp_path: Path) -> None:
    places = Places({CERN: ("davs://a/cms", "/backup")}, default="")
    (tmp_path / "storage.json").write_bytes(places.as_json())
    assert read_places(tmp_path / "storage.json") == places
    assert (
        Places({CERN: ("/a",), FNAL: ("/b",)}).as_json() == Places({FNAL: ("/b",), CERN: ("/a",)}).as_json()
    )


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"schema": 2}, "schema"),
        ({"default": None}, "default"),
        ({"default": "relative"}, "default"),
        ({"sites": []}, "sites"),
        ({"sites": {CERN: []}}, CERN),
        ({"sites": {CERN: ["http://a"]}}, CERN),
    ],
)
def test_a_bad_file_is_refused_by_field(tmp_path: Path, change: dict[str, Any], field: str) -> None:
    document = {"schema": 1, "sites": {CERN: ["/a"]}, "default": "", **change}
    (tmp_path / "storage.json").write_text(json.dumps(document))
    with pytest.raises(ManifestError, match=field):
        read_places(tmp_path / "storage.json")


def test_a_missing_file_raises_its_own_error(tmp_path: Path) -> None:
    with pytest.raises(ManifestMissing):
        read_places(tmp_path / "storage.json")
