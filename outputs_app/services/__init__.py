"""Services of outputs: record merged files, move blocks through the pipeline, withdraw outputs.

Services record what is wanted; the sweep of blocks executes it in repeatable steps.
"""

from outputs_app.services.announcing import announce_datasets, announce_shared
from outputs_app.services.block_pipeline import advance_block
from outputs_app.services.block_status import check_again, move_block
from outputs_app.services.dataset_claims import (
    allow_sharing,
    check_claims,
    claim_datasets,
    find_unused,
    forget_conflicts,
    lock_datasets,
    release_claims,
)
from outputs_app.services.reconciling import compare_outputs, find_differences, repair_outputs
from outputs_app.services.recording import close_blocks, record_group
from outputs_app.services.removing import remove_dataset
from outputs_app.services.undoing import invalidate_outputs, supersede_outputs

__all__ = [
    "advance_block",
    "allow_sharing",
    "announce_datasets",
    "announce_shared",
    "check_again",
    "check_claims",
    "claim_datasets",
    "close_blocks",
    "compare_outputs",
    "find_differences",
    "find_unused",
    "forget_conflicts",
    "invalidate_outputs",
    "lock_datasets",
    "move_block",
    "record_group",
    "release_claims",
    "remove_dataset",
    "repair_outputs",
    "supersede_outputs",
]
