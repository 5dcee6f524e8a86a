"""Input in the lab's DBS and Rucio, and what steps of the lifecycle hold while they read it."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import pytest
import requests

from wms2_project import locks

LAB = os.environ.get("WMS2_LAB_CMS_URL", "")


def add_block(
    dataset: str, block: str, *, files: int = 2, rses: Sequence[str] = ("T1_US_FNAL_Disk",)
) -> None:
    """Put a block into the lab's DBS and Rucio; one that exists gets further replicas."""
    rows = [
        {
            "lfn": f"/store/data{dataset}/{block}{n}.root",
            "size_bytes": 1000,
            "events": 100,
            "adler32": "0123abcd",
            "lumis": {"1": [[n + 1, n + 1]]},
        }
        for n in range(files)
    ]
    body = {"dataset": dataset, "blocks": [{"name": f"{dataset}#{block}", "rses": list(rses), "files": rows}]}
    assert requests.post(f"{LAB}/lab/datasets", json=body, timeout=10).status_code == 201


def note_locks(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Yield a list that records the locks held by steps of the lifecycle."""
    held: list[str] = []
    lock = locks.try_lock

    @contextmanager
    def noting(name: str) -> Iterator[bool]:
        held.append(name)
        with lock(name) as got:
            yield got
        held.remove(name)

    monkeypatch.setattr("requests_app.lifecycle.advance.try_lock", noting)
    return held


def lose_replicas(rse: str, *lfns: str) -> None:
    """Remove the replicas of these files at the storage from the lab's Rucio."""
    body = {"rse": rse, "lfns": lfns}
    assert requests.delete(f"{LAB}/lab/replicas", json=body, timeout=10).status_code == 200
