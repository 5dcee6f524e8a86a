"""ROOT files are opened over the storage protocol and counted before their block is registered."""

from __future__ import annotations

import base64
import json
import os
import ssl
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from dags_app.adapters import build_storage, dbs, use_adapters
from outputs_app.file_check import Content
from outputs_app.inspecting import NotInspected, Uninspectable, inspect_files
from outputs_app.models import OutputBlock, OutputFile
from outputs_app.services import advance_block
from outputs_app.states import BlockStatus
from rootfiles.generate import Generation, generate
from rootfiles.skim import Selection
from sandbox.storage import Storage
from sandbox.storage.base import checksum
from tests.integration.outputs.blocks import walk

pytestmark = pytest.mark.django_db
B = BlockStatus
EVENTS, PER_LUMI = 300, 100


@pytest.fixture(autouse=True)
def _checked(settings: Any, tmp_path: Path) -> None:
    settings.CHECK_OUTPUTS = True
    settings.STORAGE_PREFIX, settings.SITE_STORAGE = f"{tmp_path}/{{site}}", {}


def make_root_file(path: Path, events: int = EVENTS) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    plan = Generation(
        run=1, first_event=1, last_event=events, first_lumi=1, events_per_lumi=PER_LUMI, numbering_from=1
    )
    generate(plan, [str(path)], Selection())


@pytest.fixture
def file(block: OutputBlock, tmp_path: Path) -> OutputFile:
    """Return the only file of the block: a ROOT file of 300 events in 3 lumis, as reported."""
    block.files.order_by("lfn")[1].delete()
    row = block.files.get()
    make_root_file(path_of(row, tmp_path))
    return report(row, path_of(row, tmp_path))


def report(row: OutputFile, path: Path, **lies: Any) -> OutputFile:
    """Return the report of a correct job about the file, with these changes."""
    found = checksum(path)
    honest = {
        "size_bytes": found.size_bytes, "adler32": found.adler32, "events": EVENTS, "lumis": [[1, 1, 3]],
        "lumi_events": [[1, 1, 3, PER_LUMI]],
    }  # fmt: skip
    OutputFile.objects.filter(pk=row.pk).update(**(honest | lies))
    row.refresh_from_db()
    return row


def path_of(file: OutputFile, tmp_path: Path) -> Path:
    return tmp_path / file.block.site / file.lfn.lstrip("/")


def test_a_root_file_is_opened_and_counted(block: OutputBlock, file: OutputFile) -> None:
    assert (walk(block).status, block.last_error) == (B.ANNOUNCED, "")
    file.refresh_from_db()
    assert (file.checked_content, file.check_problem) == (True, "")


@pytest.mark.parametrize(
    ("reported", "problem"),
    [
        ({"events": 299}, "300 events in the file, 299 reported by its job"),
        ({"lumis": [[1, 1, 2]]}, "run 1 lumis 1-3 are in the file and were not reported by its job"),
        (
            {"lumi_events": [[1, 1, 2, 100], [1, 3, 3, 99]]},
            "100 events of run 1 lumi 3 in the file, 99 reported by its job",
        ),
        ({"lumis": [[1, 1, 5]]}, ""),  # lumis of which the filter left nothing
    ],
    ids=["events", "lumis", "events of a lumi", "empty lumis"],
)
def test_content_is_compared_with_the_report(
    block: OutputBlock, file: OutputFile, tmp_path: Path, reported: dict[str, Any], problem: str
) -> None:
    report(file, path_of(file, tmp_path), **reported)
    walk(block)
    file.refresh_from_db()
    assert (block.status, file.check_problem) == (B.FAILED if problem else B.ANNOUNCED, problem)
    assert (dbs().block(block.block_name) is None) == bool(problem)


@pytest.mark.parametrize(
    ("damage", "problem"),
    [
        (lambda good: good[:2000], "cannot be read as a ROOT file: truncated"),
        (
            lambda good: good[:2000] + bytes(len(good) - 4000) + good[-2000:],
            "cannot be read as a ROOT file: unreadable",
        ),
        (lambda good: good[:300] + bytes(len(good) - 300), "0 events in the file, 300 reported by its job"),
    ],
    ids=["truncated", "events overwritten", "all overwritten"],
)
def test_a_merge_that_wrote_rubbish_is_seen_although_its_checksum_is_right(
    block: OutputBlock, file: OutputFile, tmp_path: Path, damage: Callable[[bytes], bytes], problem: str
) -> None:
    path = path_of(file, tmp_path)
    path.write_bytes(damage(path.read_bytes()))
    report(file, path)
    walk(block)
    assert (block.status, problem in block.last_error) == (B.FAILED, True), block.last_error


def test_tiers_without_events_are_compared_by_size_and_checksum(
    block: OutputBlock, file: OutputFile, tmp_path: Path
) -> None:
    block.dataset.dataset_name = "/Outputs/Lab-First-v1/DQMIO"
    block.dataset.save()
    report(file, path_of(file, tmp_path), events=0)
    advance_block(block.pk)
    file.refresh_from_db()
    assert (file.checked_content, file.check_problem) == (False, "")


def test_files_are_counted_in_one_process_each_by_itself(tmp_path: Path) -> None:
    good, other, cut = (tmp_path / name for name in ("a.root", "b.txt", "c.root"))
    make_root_file(good)
    other.write_text("no ROOT file")
    cut.write_bytes(good.read_bytes()[:500])
    found = dict(inspect_files([str(good), str(other), str(cut)]))
    counted = Content(EVENTS, {"Events": EVENTS}, {"1": [[1, 3, PER_LUMI]]})
    assert (found[str(good)], found[str(other)]) == (counted, None)
    assert isinstance(found[str(cut)], Uninspectable)


DYING = "tests.integration.outputs.dying_child"


def test_only_the_file_that_costs_too_much_is_blamed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LANG", "SIGXCPU")
    assert list(inspect_files(["/one", "/two", "/three"], child=DYING)) == [
        ("/one", Content(7, {"Events": 7})),
        ("/two", Uninspectable("reading it takes too much CPU time")),
    ]


def test_a_process_that_is_killed_blames_no_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LANG", "SIGKILL")
    with pytest.raises(NotInspected, match="/two ended early"):
        list(inspect_files(["/one", "/two"], child=DYING))


class Grid:
    """The lab's grid as WMS2_LAB_GRID describes it, and a merged file for one of its sites."""

    def __init__(self, local: Path) -> None:
        self.local = local
        self.facts: dict[str, Any] = json.loads(Path(os.environ["WMS2_LAB_GRID"]).read_text())
        self.site = sorted(self.facts["sites"])[0]

    def token(self) -> str:
        secret = Path(self.facts["client_secret_file"]).read_text().strip()
        basic = base64.b64encode(f"{self.facts['client_id']}:{secret}".encode()).decode()
        scopes = "storage.read:/store storage.modify:/store"
        form = urllib.parse.urlencode({"grant_type": "client_credentials", "scope": scopes}).encode()
        asked = urllib.request.Request(
            f"{self.facts['issuer']}/token", data=form, headers={"Authorization": f"Basic {basic}"}
        )
        tls = ssl.create_default_context(cafile=self.facts["ca"])
        with urllib.request.urlopen(asked, timeout=30, context=tls) as answer:
            return str(json.load(answer)["access_token"])


@pytest.fixture
def grid(
    block: OutputBlock, file: OutputFile, settings: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Iterator[Grid]:
    """Move the block to a site of the grid for which this process has a token."""
    grid = Grid(path_of(file, tmp_path))
    monkeypatch.setenv("BEARER_TOKEN", grid.token())
    settings.TOKEN_ISSUER, settings.STORAGE_CA_FILE = "", grid.facts["ca"]
    with use_adapters(storage=(client := build_storage())):
        OutputBlock.objects.filter(pk=block.pk).update(site=grid.site)
        file.lfn = f"/store/data/check-{uuid4().hex}.root"
        file.save()
        yield grid
    client.close()


@pytest.mark.parametrize("scheme", ["davs", "root"])
@pytest.mark.parametrize("damaged", [False, True], ids=["good", "damaged"])
def test_files_on_remote_storage_are_checked_over_its_protocol(
    grid: Grid, file: OutputFile, block: OutputBlock, settings: Any, scheme: str, damaged: bool
) -> None:
    settings.SITE_STORAGE = {grid.site: [grid.facts["sites"][grid.site][scheme]]}
    if damaged:
        grid.local.write_bytes(grid.local.read_bytes()[:-4] + b"flip")
    client = Storage(ca_file=grid.facts["ca"], pauses_sec=())
    url = f"{settings.SITE_STORAGE[grid.site][0]}{file.lfn}"
    client.put(grid.local, url)
    try:
        walk(block)
    finally:
        client.delete(url)
        client.close()
    file.refresh_from_db()
    if damaged:
        assert (block.status, "on the storage" in block.last_error) == (B.FAILED, True)
    else:
        assert (block.status, file.checked_content, block.last_error) == (B.ANNOUNCED, True, "")


def test_a_server_that_does_not_answer_is_waited_for(
    grid: Grid, file: OutputFile, block: OutputBlock, settings: Any
) -> None:
    settings.SITE_STORAGE = {grid.site: ["davs://localhost:9"]}
    advance_block(block.pk)
    block.refresh_from_db()
    assert (block.status, block.failing_since is not None) == (B.PENDING, True)
    assert grid.site in block.last_error
