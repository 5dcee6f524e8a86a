"""Damage to files, and the command line. Effects of faults on servers are tested in tests/contract/grid."""

from __future__ import annotations

from pathlib import Path

import pytest

from lab.errors import LabError
from lab.grid.command import HELP, fault, find_action
from lab.grid.description import GridSite
from lab.grid.faults import FLIPPED_BYTES, SiteFaults
from lab.paths import Layout
from lab.state import Phase, ServiceState, StackState, save_state, take_lock

LFN = "/store/data/a.root"
CONTENT = bytes(range(200))


@pytest.fixture
def site(layout: Layout, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SiteFaults:
    """Return a site with one file, whose server is not started."""
    made = SiteFaults(layout, "T2", GridSite(1, tmp_path / "T2" / "data", "storage-T2"), tmp_path / "ca.pem")
    made.site.path(LFN).parent.mkdir(parents=True)
    made.site.path(LFN).write_bytes(CONTENT)
    service = ServiceState(name="storage-T2", pid=0, started_at=None, since=0.0, restarts=0)
    state = StackState(pid=1, started_at=None, since=0.0, phase=Phase.READY, services=(service,))
    monkeypatch.setattr("lab.grid.faults.load_state", lambda _layout: state)
    return made


def test_a_corrupt_file_keeps_its_size_and_is_repaired(site: SiteFaults) -> None:
    path = site.site.path(LFN)

    site.corrupt(LFN)

    assert path.read_bytes()[:-FLIPPED_BYTES] == CONTENT[:-FLIPPED_BYTES]
    assert path.read_bytes() != CONTENT
    assert path.stat().st_size == len(CONTENT)
    assert site.active() == [f"corrupt {LFN}"]
    site.clear()
    assert path.read_bytes() == CONTENT
    assert site.active() == []


@pytest.mark.parametrize("size", [0, 1, FLIPPED_BYTES])
def test_a_short_file_is_corrupted_as_far_as_it_goes(site: SiteFaults, size: int) -> None:
    path = site.site.path(LFN)
    path.write_bytes(b"x" * size)

    site.corrupt(LFN)

    assert path.stat().st_size == size
    assert b"x" not in path.read_bytes()


def test_clear_restores_a_lost_file(site: SiteFaults) -> None:
    site.lose(LFN)

    assert list(site.site.data.rglob("*.root*")) == []
    assert site.active() == [f"lose {LFN}"]
    site.clear()
    assert site.site.path(LFN).read_bytes() == CONTENT


@pytest.mark.parametrize("damage", ["corrupt", "lose"])
def test_a_file_that_was_replaced_meanwhile_is_not_changed(site: SiteFaults, damage: str) -> None:
    getattr(site, damage)(LFN)
    site.site.path(LFN).write_bytes(b"new")

    site.clear()

    assert site.site.path(LFN).read_bytes() == b"new"


@pytest.mark.parametrize("lfn", ["/store/none", "/etc/passwd", "/store/../../T2/data/store/data/a.root", "x"])
def test_only_files_of_the_site_are_damaged(site: SiteFaults, lfn: str) -> None:
    with pytest.raises(LabError, match="has no file"):
        site.corrupt(lfn)


def test_faults_need_a_running_stack(layout: Layout, tmp_path: Path) -> None:
    site = SiteFaults(layout, "T2", GridSite(1, tmp_path, "storage-T2"), tmp_path / "ca.pem")

    with pytest.raises(LabError, match=r"\./wms2 up"):
        site.hang()


@pytest.mark.parametrize(
    "arguments",
    [
        ["T9", "down"],
        ["T2"],
        ["T2", "explode"],
        ["T2", "slow", "fast"],
        ["T2", "slow", "0"],
        ["T2", "corrupt"],
    ],
)
def test_unknown_faults_are_usage_errors(site: SiteFaults, arguments: list[str]) -> None:
    with pytest.raises(LabError) as refused:
        find_action({"T2": site}, arguments)

    assert refused.value.exit_code == 2


@pytest.mark.parametrize("what", ["down", "hang", "slow", "full", "deny", "corrupt", "lose", "clear"])
def test_help_names_every_fault(what: str, site: SiteFaults) -> None:
    assert f"SITE {what} " in HELP
    arguments = ["T2", what, LFN] if what in ("corrupt", "lose") else ["T2", what]
    assert callable(find_action({"T2": site}, arguments))


def test_a_fault_on_a_stack_without_a_grid_is_refused_with_a_message(layout: Layout) -> None:
    lock = take_lock(layout)
    assert lock is not None
    save_state(layout, StackState(pid=1, started_at=None, since=0.0, phase=Phase.READY))

    with pytest.raises(LabError, match="no grid has run"):
        fault(layout, [])
