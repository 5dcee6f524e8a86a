"""The block's walk: protection before release, an undo for every state."""

from __future__ import annotations

from outputs_app.pipeline import NEXT_STEP, UNDO, Step, Undo
from outputs_app.states import MOVING, TERMINAL, TRANSITIONS, BlockStatus


def paths_from(status: BlockStatus, seen: tuple[BlockStatus, ...] = ()) -> list[tuple[BlockStatus, ...]]:
    walked = (*seen, status)
    onward = [s for s in TRANSITIONS[status] if s not in (BlockStatus.FAILED, BlockStatus.INVALIDATED)]
    return [walked] if not onward else [path for after in onward for path in paths_from(after, walked)]


def test_every_way_to_the_end_protects_before_it_announces_or_releases() -> None:
    for path in paths_from(BlockStatus.PENDING):
        assert path[-1] is BlockStatus.ANNOUNCED
        protected = path.index(BlockStatus.SOURCE_PROTECTED)
        assert path.index(BlockStatus.DBS_REGISTERED) < protected < path.index(BlockStatus.ANNOUNCED)
        if BlockStatus.SOURCE_RELEASED in path:
            assert protected < path.index(BlockStatus.TRANSFERRED) < path.index(BlockStatus.SOURCE_RELEASED)


def test_every_moving_state_has_a_step_and_every_step_an_effect() -> None:
    assert set(NEXT_STEP) == set(MOVING)
    assert set(NEXT_STEP.values()) == set(Step)


def test_every_state_with_effects_can_be_undone() -> None:
    assert set(UNDO) == set(BlockStatus) - {BlockStatus.FAILED, BlockStatus.INVALIDATED}
    assert Undo.DELETE_SOURCE_RULE not in UNDO[BlockStatus.SOURCE_RELEASED]
    assert UNDO[BlockStatus.PENDING] == ()


def test_a_failed_or_announced_block_can_still_be_invalidated() -> None:
    for status in TERMINAL - {BlockStatus.INVALIDATED}:
        assert BlockStatus.INVALIDATED in TRANSITIONS[status]
