"""Readiness of datasets that no step of a chain writes: VALID in DBS, without an open block."""

from __future__ import annotations

from chains_app.deciding import InputState
from chains_app.models import Chain, ChainDataset
from chains_app.states import DatasetStatus
from chains_app.transitions import move_dataset
from dags_app.adapters import dbs

GONE = frozenset({"INVALID", "DELETED", "DEPRECATED"})
ACTOR = "system:chains"


def outside_datasets(chain: Chain) -> dict[str, ChainDataset]:
    """Return the datasets of a chain that none of its steps writes, by name."""
    return {row.dataset_name: row for row in chain.datasets.filter(producer__isnull=True)}


def input_states(rows: dict[str, ChainDataset]) -> dict[str, InputState]:
    """Return the state of each dataset in DBS, and record those that are ready for the first time."""
    return {name: _state(row) for name, row in rows.items()}


def _state(row: ChainDataset) -> InputState:
    name, seen = row.dataset_name, row.status != DatasetStatus.PLANNED
    info = dbs().dataset(name)
    if info is None:
        reason = f"{name} is not in DBS any more" if seen else f"{name} is not in DBS yet"
        return InputState(ready=False, reason=reason, lost=seen)
    if info.access_type != "VALID":
        lost = seen or info.access_type in GONE
        return InputState(ready=False, reason=f"{name} is {info.access_type} in DBS, not VALID", lost=lost)
    if opened := dbs().open_blocks(name):
        reason = f"{name} has {len(opened)} open blocks" + (" again" if seen else "")
        return InputState(ready=False, reason=reason, lost=seen)
    move_dataset(
        dataset=row, to=DatasetStatus.COMPLETE, reason="VALID in DBS, all blocks closed", actor=ACTOR
    )
    return InputState(ready=True)
