"""The output pipeline: protection before release, withdrawal from every state."""

from __future__ import annotations

from outputs_app.pipeline import MOVING, PIPELINE, TRANSITIONS, Step, Tier
from outputs_app.states import BlockStatus
from outputs_app.steps import STEPS


def paths_from(status: BlockStatus, seen: tuple[BlockStatus, ...] = ()) -> list[tuple[BlockStatus, ...]]:
    walked = (*seen, status)
    elsewhere = {BlockStatus.INVALIDATING, BlockStatus.FAILED}
    if status is BlockStatus.TRANSFERRED:
        elsewhere.add(BlockStatus.TRANSFERRING)  # the only step back, to where a way to the end begins again
    onward = [after for after in TRANSITIONS[status] if after not in elsewhere]
    return [walked] if not onward else [path for after in onward for path in paths_from(after, walked)]


def test_every_way_to_the_end_protects_before_it_announces_or_releases() -> None:
    for path in paths_from(BlockStatus.PENDING):
        assert path[-1] is BlockStatus.ANNOUNCED
        protected = path.index(BlockStatus.SOURCE_PROTECTED)
        assert path.index(BlockStatus.CHECKED) < path.index(BlockStatus.DBS_REGISTERED)
        assert path.index(BlockStatus.DBS_REGISTERED) < protected < path.index(BlockStatus.ANNOUNCED)
        if BlockStatus.SOURCE_RELEASED in path:
            assert protected < path.index(BlockStatus.TRANSFERRED) < path.index(BlockStatus.SOURCE_RELEASED)


def test_every_moving_state_has_a_step_and_every_step_an_effect() -> None:
    steps = {status: stage.step for status, stage in PIPELINE.items() if stage.step}
    assert set(steps) == MOVING == set(BlockStatus) - {
        BlockStatus.ANNOUNCED, BlockStatus.INVALIDATED, BlockStatus.FAILED,
    }  # fmt: skip
    assert set(steps.values()) == set(Step) == set(STEPS)
    assert all((stage.step is None) == (stage.tier is None) for stage in PIPELINE.values())
    assert {status for status, stage in PIPELINE.items() if stage.leads_to and not stage.step} == {
        BlockStatus.FAILED
    }, "only a person has it checked again"
    assert TRANSITIONS[BlockStatus.FAILED] == {BlockStatus.PENDING, BlockStatus.INVALIDATING}


def test_every_state_can_be_taken_back_and_only_by_way_of_its_undo() -> None:
    for status in set(BlockStatus) - {BlockStatus.INVALIDATING, BlockStatus.INVALIDATED}:
        assert BlockStatus.INVALIDATING in TRANSITIONS[status]
        assert BlockStatus.INVALIDATED not in TRANSITIONS[status]
    assert TRANSITIONS[BlockStatus.INVALIDATING] == {BlockStatus.INVALIDATED}


def test_protection_comes_before_progress_and_polls_come_last() -> None:
    def tier(*statuses: BlockStatus) -> set[Tier | None]:
        return {PIPELINE[status].tier for status in statuses}

    assert tier(BlockStatus.PENDING, BlockStatus.CHECKED, BlockStatus.DBS_REGISTERED) == {Tier.PROTECT}
    assert tier(BlockStatus.TRANSFERS_REQUESTED, BlockStatus.TRANSFERRING) == {Tier.POLL}
    assert Tier.PROTECT < Tier.REQUEST < Tier.POLL
