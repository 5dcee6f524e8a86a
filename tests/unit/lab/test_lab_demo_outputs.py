"""The demonstration opens its outputs: every event once, in every output dataset."""

from __future__ import annotations

from pathlib import Path

import pytest

from lab.demo.outputs import check_outputs
from lab.errors import LabError
from rootfiles.generate import Generation, generate
from rootfiles.skim import Selection

INPUT, FIRST, SECOND = "/M/Run-v1/RAW", "/M/Run-First-v1/AOD", "/M/Run-First-v1/MINIAOD"
DOCUMENT = {"RequestName": "demo", "InputDataset": INPUT, "OutputDatasets": [FIRST, SECOND]}
Ranges = list[tuple[int, int]]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("files")


def file_of(place: Path, first: int, last: int) -> Path:
    path = place / f"{first}-{last}.root"
    if not path.exists():
        generate(Generation(1, first, last, 1, 10, 1), [str(path)], Selection())
    return path


def checked(place: Path, **datasets: Ranges) -> int:
    names = {"raw": INPUT, "aod": FIRST, "mini": SECOND}
    files = {names[key]: [file_of(place, *one) for one in ranges] for key, ranges in datasets.items()}
    return check_outputs(DOCUMENT, lambda dataset: files[dataset]).events


def test_events_may_be_in_other_files_and_another_order(place: Path) -> None:
    whole: Ranges = [(1, 60)]
    assert checked(place, raw=[(1, 30), (31, 60)], aod=[(31, 60), (1, 30)], mini=whole) == 60


@pytest.mark.parametrize(
    ("outputs", "message"),
    [
        (
            {"aod": [(1, 60)], "mini": [(1, 30)]},
            f"{SECOND}: 30 events of the input are not in its files, 0 others",
        ),
        ({"aod": [(1, 60), (31, 60)], "mini": [(1, 60)]}, f"{FIRST}: 30 events are in its files twice"),
        (
            {"aod": [(31, 90)], "mini": [(1, 60)]},
            f"{FIRST}: 30 events of the input are not in its files, 30 others",
        ),
    ],
    ids=["lost", "doubled", "others"],
)
def test_a_lost_or_doubled_event_is_an_error(place: Path, outputs: dict[str, Ranges], message: str) -> None:
    with pytest.raises(LabError, match=message):
        checked(place, raw=[(1, 60)], **outputs)


def test_the_peak_of_generated_events_is_that_of_the_z(place: Path) -> None:
    document = {"RequestName": "demo", "OutputDatasets": [FIRST]}
    found = check_outputs(document, lambda _dataset: [file_of(place, 1, 2000)])
    assert (found.events, found.peak_gev) == (2000, pytest.approx(91.19, abs=0.3))
