"""The landing of a group: which sites it may use, and the site it elects for the group."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from sandbox.build import LAUNCHERS, copy_scripts
from tests.job_world import LOG


def elect(place: Path, log: str | None, *arguments: str) -> tuple[int, Any]:
    place.mkdir(exist_ok=True)
    if log is not None:
        (place / "group.dag.nodes.log").write_text(log)
    copy_scripts(place / "scripts")
    done = subprocess.run(
        ["scripts/elect_site.sh", *arguments],
        cwd=place,
        env={"PATH": os.environ["PATH"], "WMS2_PYTHON": sys.executable},
        check=False,
    )
    path = place / "elected_site.inc"
    return done.returncode, path.read_text() if path.exists() else None


def test_the_landing_elects_the_site_where_it_ran(tmp_path: Path) -> None:
    other = LOG.replace("(007.", "(070.").replace("T1_US_FNAL", "T2_DE_DESY")
    longer = LOG.replace("(007.", "(0071.").replace("T1_US_FNAL", "T2_DE_DESY")
    moved = LOG.replace("T1_US_FNAL", "T2_US_Purdue")

    assert elect(tmp_path / "a", LOG + longer + other, "landing", "0", "7.0") == (
        0,
        "elected_site = T1_US_FNAL\n",
    )
    assert elect(tmp_path / "b", LOG + moved + other, "landing", "0", "7.0") == (
        0,
        "elected_site = T2_US_Purdue\n",
    )
    assert (tmp_path / "a" / "raised.inc").read_bytes() == b""
    assert set(LAUNCHERS) <= {path.name for path in (tmp_path / "a" / "scripts").iterdir()}
    assert (tmp_path / "a" / "reports").is_dir()


@pytest.mark.parametrize(
    ("line", "elected"),
    [
        ("g T2_DE_DESY,T1_US_FNAL", "elected_site = T1_US_FNAL\n"),
        ("other T2_DE_DESY", "elected_site = T1_US_FNAL\n"),
        ("g T2_DE_DESY", None),
        ("g -", None),
    ],
    ids=["still allowed", "of another group", "not allowed any more", "no site is"],
)
def test_a_site_that_may_not_be_used_any_more_is_not_elected(
    tmp_path: Path, line: str, elected: str | None
) -> None:
    (tmp_path / "landing_sites").write_text(f"{line}\n")
    status, found = elect(tmp_path / "g", LOG, "landing", "0", "7.0")
    assert (status, found) == (0 if elected else 1, elected)


@pytest.mark.parametrize(
    ("text", "status", "included"),
    [
        (None, 0, "\n"),
        ("mg_000002 T2_DE_DESY\n", 0, "\n"),
        ("mg_000001 T2_CH_CERN,T2_DE_DESY\nmg_000002 -\n", 0, "landing_sites = T2_CH_CERN,T2_DE_DESY\n"),
        ("mg_000000 T2_CH_CERN\nmg_000001 -\n", 75, None),
    ],
    ids=["nothing changed", "another group", "other sites", "no site"],
)
def test_a_landing_takes_the_sites_that_are_usable_when_it_starts(
    tmp_path: Path, text: str | None, status: int, included: str | None
) -> None:
    group = tmp_path / "mg_000001"
    group.mkdir()
    copy_scripts(tmp_path / "scripts")
    if text is not None:
        (tmp_path / "landing_sites").write_text(text)
    done = subprocess.run(["../scripts/landing.sh", "landing"], cwd=group, env={}, check=False)
    path = group / "landing_sites.inc"
    assert (done.returncode, path.read_text() if path.exists() else None) == (status, included)


@pytest.mark.parametrize(
    ("log", "arguments"),
    [
        (None, ("landing", "0", "7.0")),
        (LOG, ("landing", "1", "7.0")),
        (LOG, ("landing", "0", "8.0")),
        (LOG, ("landing", "0", "$JOBID")),
        (LOG, ("landing", "0")),
        (LOG.replace("T1_US_FNAL", "T1_US_FNAL; include"), ("landing", "0", "7.0")),
        (LOG.split("\tMemory = 128")[0], ("landing", "0", "7.0")),
    ],
    ids=["no log", "landing failed", "another job", "no job id", "too few", "illegal name", "event cut off"],
)
def test_without_a_legal_site_nothing_is_elected(
    tmp_path: Path, log: str | None, arguments: tuple[str, ...]
) -> None:
    status, elected = elect(tmp_path / "g", log, *arguments)

    assert status != 0
    assert elected is None
