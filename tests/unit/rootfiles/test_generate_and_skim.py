"""Generated and skimmed events: the planned ones, once each, the same in every attempt."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from rootfiles.errors import RootFileError
from rootfiles.generate import Generation, generate, seed_of
from rootfiles.inspect import inspect
from rootfiles.skim import DROPPED, PAIR_PT, Selection, SkimSource, skim
from tests.unit.rootfiles.conftest import MakeFile, branches, damaged, numbers, write_trees


def test_generated_events_have_the_planned_numbers_and_lumis(tmp_path: Path) -> None:
    path = str(tmp_path / "a.root")
    plan = Generation(7, 41, 75, first_lumi=3, events_per_lumi=10, numbering_from=21)
    made = generate(plan, [path], Selection())

    assert numbers(path) == list(range(41, 76))
    assert made.targets[0].lumi_events() == {"7": [[5, 7, 10], [8, 8, 5]]}
    assert inspect(path).lumi_events == made.targets[0].lumi_events()


def test_the_same_window_has_the_same_physics_and_another_has_not(tmp_path: Path) -> None:
    paths = [str(tmp_path / name) for name in ("a.root", "b.root", "c.root")]
    for path, first in zip(paths, (1, 1, 101), strict=True):
        generate(Generation(1, first, first + 99, 1, 10, 1), [path], Selection())
    one, same, other = (branches(path)["dimuon_mass"] for path in paths)

    assert np.array_equal(one, same)
    assert not np.array_equal(one, other)
    assert seed_of(1, 1) != seed_of(1, 101) != seed_of(2, 101)


def test_the_muon_pairs_come_from_a_z_boson(make_file: MakeFile) -> None:
    mass = branches(make_file("a.root", 2000))["dimuon_mass"]

    assert float(np.median(mass)) == pytest.approx(91.19, abs=0.3)


def test_a_mask_and_a_filter_keep_some_of_the_generated_events(tmp_path: Path) -> None:
    path = str(tmp_path / "a.root")
    plan = Generation(1, 1, 1000, 1, 100, 1, mask={"1": [[2, 3]]})
    made = generate(plan, [path], Selection(filter_efficiency=0.5))

    assert made.sources[0].lumi_events() == {"1": [[2, 3, 100]]}, "what was allowed counts as read"
    assert set(numbers(path)) <= set(range(101, 301))
    assert 70 < len(numbers(path)) < 130


def test_windows_of_several_files_are_skimmed_in_order(make_file: MakeFile, tmp_path: Path) -> None:
    first, second = make_file("a.root", 100), make_file("b.root", 50, first=101)
    targets = [str(tmp_path / name) for name in ("full.root", "small.root")]
    sources = [SkimSource(first, 90, 99, events=100), SkimSource(second, 0, 19, mask={"1": [[11, 11]]})]
    done = skim(sources, targets, Selection())

    assert numbers(targets[0]) == numbers(targets[1]) == list(range(91, 111))
    assert [one.events for one in done.sources] == [10, 10]
    full, small = (set(branches(path)) for path in targets)
    assert full - small == set(DROPPED)
    assert PAIR_PT in small


def test_a_selection_by_mass_drops_events_that_were_read(make_file: MakeFile, tmp_path: Path) -> None:
    target = str(tmp_path / "s.root")
    done = skim([SkimSource(make_file("a.root", 500), 0, 499)], [target], Selection(1.0, [89, 93]))

    mass = branches(target)["dimuon_mass"]
    assert done.sources[0].events == 500
    assert 0 < len(mass) < 500
    assert 89 <= mass.min() <= mass.max() <= 93


def test_an_empty_window_makes_an_empty_tree(make_file: MakeFile, tmp_path: Path) -> None:
    target = str(tmp_path / "s.root")
    skim([SkimSource(make_file("a.root"), 0, -1)], [target], Selection())

    assert inspect(target).trees == {"Events": 0}


@pytest.mark.parametrize(("events", "last"), [(90, 89), (None, 100)])
def test_a_file_with_other_events_than_planned_is_refused(
    make_file: MakeFile, tmp_path: Path, events: int | None, last: int
) -> None:
    path = make_file("a.root", 100)
    with pytest.raises(RootFileError, match="holds 100 events") as refused:
        skim([SkimSource(path, 0, last, events=events)], [str(tmp_path / "s.root")], Selection())

    assert (refused.value.kind, refused.value.source) == ("entries-differ", path)
    assert not (tmp_path / "s.root").exists()


@pytest.mark.parametrize("how", ["empty", "not-root", "truncated", "unreadable"])
def test_a_broken_second_file_is_named_and_leaves_nothing_behind(
    make_file: MakeFile, tmp_path: Path, how: str
) -> None:
    good, bad = make_file("a.root"), damaged(make_file("b.root"), how)
    sources = [SkimSource(path, 0, 99) for path in (good, bad)]
    with pytest.raises(RootFileError) as refused:
        skim(sources, [str(tmp_path / "s.root")], Selection())

    assert (refused.value.kind, refused.value.source) == (how, bad)
    assert {path.name for path in tmp_path.iterdir()} == {"a.root", "b.root"}


def test_a_tree_without_lumis_or_masses_is_refused_by_branch(tmp_path: Path, make_file: MakeFile) -> None:
    bare = write_trees(tmp_path / "bare.root", {"Events": {"event": [1, 2]}})
    massless = write_trees(
        tmp_path / "m.root", {"Events": {"event": [1], "run": [1], "luminosityBlock": [1]}}
    )
    for path, branch in ((bare, "luminosityBlock"), (massless, "dimuon_mass")):
        with pytest.raises(RootFileError, match=branch) as refused:
            skim([SkimSource(path, 0, 0)], [str(tmp_path / "s.root")], Selection(1.0, [80, 100]))
        assert refused.value.kind == "missing-branch"
