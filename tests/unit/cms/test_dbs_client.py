from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from output_blocks import BLOCK, DATASET, block_file, block_record

from cms.dbs import DbsClient
from cms.dbs_errors import DbsRefusal, ParentMissing, UnknownAccessType
from cms.types import DatasetFile, FileCounts
from wms2_project.errors import InvalidInput, NotFound, ServiceRejected, ServiceUnavailable

Lab = Callable[..., Any]
RAW = "/SingleMuon/Run2024A-v1/RAW"
PARENT = "/store/data/Run2024A/SingleMuon/RAW/v1/p.root"


def write_fault(kind: str, **more: Any) -> list[dict[str, Any]]:
    return [{"service": "dbs", "kind": kind, "path_regex": "DBSWriter", **more}]


@pytest.fixture
def raw(lab: Lab) -> None:
    file = {"size_bytes": 10, "events": 5, "adler32": "deadbeef", "lumis": {"1": [[1, 2]], "2": [[9, 9]]}}
    blocks = [
        {"name": f"{RAW}#b", "rses": ["T2_DE_DESY"], "files": [{**file, "lfn": "/store/data/b.root"}]},
        {"name": f"{RAW}#a", "rses": ["T2_CH_CERN"], "files": [{**file, "lfn": PARENT}]},
    ]
    lab("POST", "datasets", {"dataset": RAW, "blocks": blocks})


def test_dataset_is_summed_over_its_files(dbs: DbsClient, raw: None) -> None:
    info = dbs.dataset(RAW)

    assert info is not None
    assert (info.access_type, info.primary_type, info.acquisition_era) == ("VALID", "data", "Run2024A")
    assert (info.blocks, info.files, info.lumis, info.events, info.size_bytes) == (2, 2, 3, 10, 20)


def test_unknown_dataset_is_returned_as_none(dbs: DbsClient) -> None:
    assert dbs.dataset("/Unknown/Dataset-v1/RAW") is None


def test_dataset_that_is_not_valid_is_found_too(dbs: DbsClient) -> None:
    dbs.register_block(block_record())

    info = dbs.dataset(DATASET)

    assert info is not None
    assert info.access_type == "PRODUCTION"


@pytest.mark.parametrize("name", ["/Single*/Run2024A-v1/RAW", "", "/A/B/RAW&detail=0", "/A/B"])
def test_wildcards_and_other_tricks_are_refused(dbs: DbsClient, name: str) -> None:
    with pytest.raises(InvalidInput, match="dataset"):
        dbs.dataset(name)


def test_files_come_block_by_block_with_lumi_ranges(dbs: DbsClient, raw: None) -> None:
    lumis = ((1, 1, 2), (2, 9, 9))

    assert list(dbs.files(RAW)) == [
        DatasetFile(PARENT, 10, 5, "deadbeef", f"{RAW}#a", lumis),
        DatasetFile("/store/data/b.root", 10, 5, "deadbeef", f"{RAW}#b", lumis),
    ]


def test_the_names_of_a_dataset_are_of_its_valid_files(dbs: DbsClient, raw: None) -> None:
    assert dbs.valid_lfns(RAW) == {PARENT, "/store/data/b.root"}
    dbs.invalidate_files([PARENT])
    assert dbs.valid_lfns(RAW) == {"/store/data/b.root"}


def test_registered_block_is_closed_complete_and_readable(dbs: DbsClient) -> None:
    record = block_record()

    dbs.register_block(record)

    found = dbs.block(BLOCK)
    assert found is not None
    assert (found["open_for_writing"], found["origin_site_name"]) == (0, "T2_CH_CERN")
    assert [(file.lfn, file.size_bytes, file.events, file.adler32, file.lumis) for file in record.files] == [
        (file.lfn, file.size_bytes, file.events, file.adler32, file.lumis) for file in dbs.block_files(BLOCK)
    ]


def test_unregistered_block_is_returned_as_none(dbs: DbsClient) -> None:
    assert dbs.block(BLOCK) is None


def test_registering_twice_leaves_one_block(dbs: DbsClient, lab: Lab) -> None:
    dbs.register_block(block_record())
    dbs.register_block(block_record())

    assert lab("GET", "state")["dbs"]["datasets"][DATASET]["files"] == 2


@pytest.mark.parametrize("kind", ["success_then_500", "duplicate"])
def test_insertion_that_succeeded_behind_an_error_is_adopted(dbs: DbsClient, lab: Lab, kind: str) -> None:
    lab("PUT", "faults", write_fault(kind))

    dbs.register_block(block_record())

    state = lab("GET", "state")
    assert state["faults"] == []
    assert state["dbs"]["datasets"][DATASET]["files"] == 2


def test_insertion_whose_answer_came_too_late_is_adopted(impatient_dbs: DbsClient, lab: Lab) -> None:
    lab("PUT", "faults", write_fault("slow", seconds=20))

    impatient_dbs.register_block(block_record())

    assert list(lab("GET", "state")["dbs"]["blocks"]) == [BLOCK]


@pytest.mark.parametrize("fault", [{"kind": "status", "status": 502}, {"kind": "timeout", "seconds": 20}])
def test_insertion_that_did_not_happen_is_unavailable(
    impatient_dbs: DbsClient, lab: Lab, fault: dict[str, Any]
) -> None:
    lab("PUT", "faults", write_fault(**fault))

    with pytest.raises(ServiceUnavailable):
        impatient_dbs.register_block(block_record())

    assert lab("GET", "state")["dbs"]["blocks"] == {}


def test_block_with_other_content_is_not_adopted(dbs: DbsClient) -> None:
    dbs.register_block(block_record())

    with pytest.raises(ServiceRejected, match="WMS2 has 1 files and 1000 bytes"):
        dbs.register_block(block_record(files=(block_file(0),)))


def test_parents_are_registered(dbs: DbsClient, raw: None) -> None:
    dbs.register_block(block_record(files=(block_file(0, parents=(PARENT,)),), parent_datasets=(RAW,)))

    assert dbs.block(BLOCK) is not None


def test_unknown_parent_is_rejected_with_the_message_of_dbs(dbs: DbsClient) -> None:
    record = block_record(files=(block_file(0, parents=("/store/data/lost.root",)),))

    with pytest.raises(ParentMissing, match="unable to find parent lfn /store/data/lost") as refused:
        dbs.register_block(record)
    assert (refused.value.dbs_code, "Register the input" in str(refused.value)) == (202, True)


def test_file_of_another_block_is_rejected(dbs: DbsClient) -> None:
    dbs.register_block(block_record())

    with pytest.raises(DbsRefusal, match="in DBS already"):
        dbs.register_block(block_record(block_name=f"{DATASET}#other"))


def test_status_of_a_dataset_is_set_and_read_back(dbs: DbsClient) -> None:
    dbs.register_block(block_record())

    dbs.set_dataset_status(DATASET, "VALID")

    info = dbs.dataset(DATASET)
    assert info is not None
    assert info.access_type == "VALID"


def test_status_of_an_unknown_dataset_is_not_silently_accepted(dbs: DbsClient) -> None:
    with pytest.raises(NotFound, match="cannot become VALID"):
        dbs.set_dataset_status(DATASET, "VALID")


def test_unknown_status_is_rejected(dbs: DbsClient) -> None:
    dbs.register_block(block_record())

    with pytest.raises(UnknownAccessType, match="SPLENDID"):
        dbs.set_dataset_status(DATASET, "SPLENDID")


def test_status_set_behind_an_error_counts(dbs: DbsClient, lab: Lab) -> None:
    dbs.register_block(block_record())
    lab("PUT", "faults", write_fault("success_then_500"))

    dbs.set_dataset_status(DATASET, "INVALID")

    assert lab("GET", "state")["dbs"]["datasets"][DATASET]["access_type"] == "INVALID"


def test_status_that_was_not_set_is_unavailable(dbs: DbsClient, lab: Lab) -> None:
    dbs.register_block(block_record())
    lab("PUT", "faults", write_fault("status", status=500))

    with pytest.raises(ServiceUnavailable, match="500"):
        dbs.set_dataset_status(DATASET, "INVALID")


def test_an_existing_block_has_counts_and_an_unknown_one_none(dbs: DbsClient, raw: None) -> None:
    assert dbs.block_counts(f"{RAW}#a") == FileCounts(files=1, bytes=10, events=5, lumis=3)
    assert dbs.block_counts(f"{RAW}#unknown") is None


def test_invalid_files_are_no_longer_counted_or_read(dbs: DbsClient) -> None:
    dbs.register_block(block_record())
    lfn = dbs.block_files(BLOCK)[0].lfn

    dbs.invalidate_files([lfn, "/store/data/unknown/file.root"])

    assert lfn not in [file.lfn for file in dbs.block_files(BLOCK)]
    counts = dbs.block_counts(BLOCK)
    assert counts is not None
    assert counts.files == 1


def test_error_of_an_unavailable_dbs_is_kept(dbs: DbsClient, lab: Lab) -> None:
    lab("PUT", "faults", [{"service": "dbs", "kind": "status", "status": 503, "times": None}])

    with pytest.raises(ServiceUnavailable, match="503: Service Unavailable"):
        dbs.dataset(RAW)
