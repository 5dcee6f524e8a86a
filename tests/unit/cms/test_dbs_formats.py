"""Our DBS documents against the shapes DBS uses: made-up ones always, public ones where they are at hand."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
import requests
from output_blocks import block_file, block_record

from cms.dbs import DbsClient, parse_files
from cms.dbs_block import bulk_block
from lab.cms_world.server import World

BESIDE_THE_CHECKOUT = Path(__file__).parents[3].parent / "shared" / "samples"
SAMPLES = Path(os.environ.get("WMS2_SAMPLES", BESIDE_THE_CHECKOUT)) / "dbs"


def sample(name: str) -> Any:
    path = SAMPLES / name
    if not path.exists():
        pytest.skip(f"no {name} in {SAMPLES}; set WMS2_SAMPLES")
    return json.loads(path.read_text())


def file_row(**changes: Any) -> dict[str, Any]:
    row = {"logical_file_name": "/store/a.root", "file_size": 7, "event_count": 3, "adler32": "1a2b3c4d"}
    return {**row, "block_name": "/A/B-v1/RAW#x", **changes}


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("1A2B3C4D", "1a2b3c4d"),
        ("b3c4d", "000b3c4d"),
        ("NOTSET", ""),
        ("", ""),
        (None, ""),
        ("123456789", ""),
    ],
)
def test_checksums_are_eight_digits_or_nothing(given: str | None, expected: str) -> None:
    assert parse_files([file_row(adler32=given)], [])[0].adler32 == expected


def test_missing_event_count_is_zero() -> None:
    assert parse_files([file_row(event_count=None)], [])[0].events == 0


def test_file_listed_once_per_run_is_one_file() -> None:
    rows = [file_row(run_num=1), file_row(run_num=2)]

    assert len(parse_files(rows, [])) == 1


def test_lumi_rows_come_singly_or_as_lists_and_of_other_files_too() -> None:
    lumis = [
        {"logical_file_name": "/store/a.root", "run_num": 1, "lumi_section_num": 2},
        {"logical_file_name": "/store/a.root", "run_num": 1, "lumi_section_num": [3, 5]},
        {"logical_file_name": "/store/invalid.root", "run_num": 1, "lumi_section_num": 4},
    ]

    assert parse_files([file_row()], lumis)[0].lumis == ((1, 2, 3), (1, 5, 5))


def test_lumi_sections_are_spelt_out_without_event_counts() -> None:
    document = bulk_block(block_record(files=(block_file(0),)), created_by="wms2")

    assert document["files"][0]["file_lumi_list"] == [
        {"run_num": 316877, "lumi_section_num": lumi} for lumi in (1, 2, 3, 7)
    ]


def test_validity_of_files_is_not_mentioned() -> None:
    assert "is_file_valid" not in json.dumps(bulk_block(block_record(), created_by="wms2"))


def test_size_and_count_of_the_block_are_those_of_its_files() -> None:
    block = bulk_block(block_record(), created_by="wms2")["block"]

    assert (block["block_size"], block["file_count"]) == (2001, 2)


@pytest.mark.parametrize("name", ["bulkblocks.json", "genericttbar_block.json"])
def test_our_block_has_every_section_of_a_public_one(name: str) -> None:
    public = sample(name)
    ours = bulk_block(block_record(files=(block_file(0, parents=("/store/p.root",)),)), created_by="wms2")

    # Parentage of blocks and the older spelling of dataset parentage are optional in DBS.
    assert set(public) - set(ours) <= {"block_parent_list", "ds_parent_list"}


def test_our_block_has_every_field_of_a_public_one() -> None:
    public = sample("bulkblocks.json")
    ours = bulk_block(block_record(), created_by="wms2")

    for section in ("block", "dataset", "primds", "acquisition_era", "processing_era"):
        assert set(public[section]) <= set(ours[section]), section
    for section in ("files", "file_conf_list", "dataset_conf_list"):
        assert set(public[section][0]) <= set(ours[section][0]), section


def test_public_block_can_be_registered_and_read_back(world: World, dbs: DbsClient) -> None:
    document = sample("bulkblocks.json")
    document["dataset_parent_list"] = []

    answer = requests.post(f"{world.url}/dbs/DBSWriter/bulkblocks", json=document, timeout=5)

    assert answer.json() == []
    found = dbs.block_files(document["block"]["block_name"])
    assert sum(file.size_bytes for file in found) == sum(file["file_size"] for file in document["files"])
    assert found[0].lumis == ((98, 26422, 26422), (98, 27414, 27414), (98, 29838, 29838))


def test_public_file_records_are_read() -> None:
    rows = sample("files_response.json")

    files = parse_files(rows, [])

    assert {file.lfn for file in files} == {row["logical_file_name"] for row in rows}
    assert {file.adler32 for file in files} == {""}


def test_lab_answers_with_the_columns_of_a_public_file_record(world: World, dbs: DbsClient) -> None:
    columns = set(sample("files_response.json")[0]) - {"run_num"}
    dbs.register_block(block_record())

    answer = requests.get(
        f"{world.url}/dbs/DBSReader/files",
        params={"block_name": block_record().block_name, "detail": 1},
        timeout=5,
    )

    assert set(answer.json()[0]) == columns
