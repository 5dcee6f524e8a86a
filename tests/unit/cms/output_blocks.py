"""A block to register, made up for tests."""

from __future__ import annotations

from cms.types import BlockFile, BlockRecord

DATASET = "/SingleMuon/Run2024A-Lab-v1/AOD"
BLOCK = f"{DATASET}#0c3ab1a4-0000-4000-8000-00000000000a"


def block_file(index: int = 0, **changes: object) -> BlockFile:
    values: dict[str, object] = {
        "lfn": f"/store/data/Run2024A/SingleMuon/AOD/Lab-v1/{index}.root",
        "size_bytes": 1000 + index,
        "events": 50,
        "adler32": f"0000000{index % 10}",
        "lumis": ((316877, 1, 3), (316877, 7, 7)),
    }
    return BlockFile(**{**values, **changes})  # type: ignore[arg-type]


def block_record(**changes: object) -> BlockRecord:
    values: dict[str, object] = {
        "block_name": BLOCK,
        "dataset": DATASET,
        "site": "T2_CH_CERN",
        "files": (block_file(0), block_file(1)),
        "acquisition_era": "Run2024A",
        "processing_version": 1,
        "physics_group": "NoGroup",
        "prep_id": "LAB-0001",
        "release": "CMSSW_14_0_0",
        "global_tag": "140X_lab_v1",
        "primary_type": "data",
        "created_at": 1_800_000_000,
    }
    return BlockRecord(**{**values, **changes})  # type: ignore[arg-type]
