"""Failing rounds on the real pool: repaired automatically, or held for an operator.

The requests run at the same time; each test waits for its own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from uuid import uuid4

import pytest

from dags_app.models import DAG, InputFile, MergeGroup, Round, Workflow
from lab.seed.datasets import InputBlock, InputDataset
from lab.seed.datasets import InputFile as SeedFile
from lab.seed.documents import urgent
from lab.seed.storage import Laboratory, Storage, store_dataset
from outputs_app.models import OutputFile
from sandbox.elect_site import ELECTED_SITE
from sites_app.models import SiteBan
from tests.e2e.conftest import Json, Stack
from tests.e2e.test_outputs import assert_taken_back
from tests.waiting import until

CERN, DESY, PURDUE = "T2_CH_CERN", "T2_DE_DESY", "T2_US_Purdue"
EVENTS = 10
STORAGE_LOST = 71102  # of the infrastructure, and not worth a second attempt
BROKEN_CODE = 8001  # permanent


def dataset(name: str, places: Sequence[Sequence[str]]) -> InputDataset:
    """Create a dataset with one small file for each entry of `places`, at these sites."""
    files = tuple(
        SeedFile(
            lfn=f"/store/data/Run2024B/EGamma/RAW/{name}/{number:03d}.root",
            rses=tuple(rses),
            run=390001,
            first_lumi=number + 1,
            lumis=1,
            first_event=1 + number * EVENTS,
            events=EVENTS,
        )
        for number, rses in enumerate(places)
    )
    full = f"/EGamma/Run2024B-{name}-v1/RAW"
    return InputDataset(full, "Run2024B", (InputBlock(f"{full}#1", (files[0].rses[0],), files),))


class Case:
    """One request with its own input: `per_group` jobs of one file each per group."""

    def __init__(self, stack: Stack, name: str, places: Sequence[Sequence[str]], per_group: int, toy: Json):
        self.stack, self.data = stack, dataset(name, places)
        Laboratory(stack.cms_url).add("datasets", store_dataset(self.data, Storage(stack.storage_prefix)))
        self.document = urgent(input_dataset=self.data.name, suffix=name) | {
            "SplittingAlgo": "FileBased",
            "FilesPerJob": 1,
            "SiteWhitelist": [CERN, DESY, PURDUE],
            "PayloadConfig": {"toy": {"cpu_sec_per_event": 0.001, "output_kb_per_event": 0.0625} | toy},
        }
        self.per_group = per_group

    def submit(self, **document: object) -> None:
        self.name = self.stack.post("requests", self.document | document)["request_name"]
        Workflow.objects.filter(request_name=self.name).update(jobs_per_group=self.per_group)

    @property
    def workflow(self) -> Workflow:
        return Workflow.objects.get(request_name=self.name)

    def lfn(self, number: int) -> str:
        return self.data.blocks[0].files[number].lfn

    def has_landed(self, site: str) -> bool:
        """Return whether a group of its first DAG elected this site."""
        dag = DAG.objects.filter(workflow=self.workflow).first()
        elected = Path(dag.submit_dir).glob(f"mg_*/{ELECTED_SITE}") if dag is not None else ()
        return any(site in path.read_text() for path in elected)

    def widen(self) -> None:
        """Allow DESY, which was excluded at first so that groups land where they fail."""
        body = {"reason": "back in use", "site_whitelist": [CERN, DESY, PURDUE]}
        answer = self.stack.api.patch(f"{self.stack.url}/api/v1/requests/{self.name}", json=body, timeout=30)
        assert answer.status_code == 200, answer.text

    def written(self) -> Counter[int]:
        """Return the number of times that each input event is in the output."""
        found: Counter[int] = Counter()
        for file in OutputFile.objects.filter(block__dataset__workflow=self.workflow).select_related("block"):
            for (_, _, event), count in self.stack.events_in(file.lfn, file.block.site).items():
                found[event] += count
        return found

    def expected(self, *missing: int) -> Counter[int]:
        """Return every input event once, except those of the missing files."""
        files = self.data.blocks[0].files
        numbers = [n for n in range(len(files)) if n not in missing]
        return Counter(files[n].first_event + event for n in numbers for event in range(EVENTS))


@pytest.fixture
def cases(stack: Stack) -> dict[str, Case]:
    """Return all requests, submitted together at the first use."""
    if not _cases:
        _cases.update(submit_all(stack))
    return _cases


_cases: dict[str, Case] = {}


def submit_all(stack: Stack) -> dict[str, Case]:
    """Submit all requests with admission closed, until the sizes of groups are set."""
    tag = f"L2{uuid4().hex[:7]}"
    bad_site = {"fail_exit_code": STORAGE_LOST, "fail_sites": [PURDUE]}
    made = {
        "corrupt": Case(stack, f"{tag}a", [[CERN, DESY]] * 2 + [[CERN]] * 10, 2, {}),
        "bad_site": Case(stack, f"{tag}b", [[PURDUE, DESY]] * 3 + [[CERN]] * 15, 3, bad_site),
        "many": Case(stack, f"{tag}c", [[PURDUE, DESY]] * 3 + [[CERN]] * 7, 1, bad_site),
        "worn_out": Case(
            stack, f"{tag}d", [[CERN]] * 6, 1,
            {"fail_exit_code": BROKEN_CODE, "fail_nodes": ["proc_000000"]},
        ),
    }  # fmt: skip
    storage = Storage(stack.storage_prefix)
    for number, site in ((0, CERN), (0, DESY), (1, CERN)):
        storage.path(made["corrupt"].lfn(number), site).write_bytes(b"not what it was")
    admission(stack, paused=True)
    try:
        for name, case in made.items():
            case.submit(**({"SiteWhitelist": [CERN, PURDUE]} if name in ("bad_site", "many") else {}))
    finally:
        admission(stack, paused=False)
    until(lambda: made["bad_site"].has_landed(PURDUE))
    made["bad_site"].widen()
    return made


def admission(stack: Stack, *, paused: bool) -> None:
    body = {"reason": "a test", "paused": paused}
    answer = stack.api.patch(f"{stack.url}/api/v1/admission/config", json=body, timeout=30)
    assert answer.status_code == 200, answer.text


def group_texts(round_: Round) -> list[str]:
    directory = Path(DAG.objects.filter(round=round_).latest("created_at").submit_dir)
    return [(directory / group.name / "group.dag").read_text() for group in round_.groups.order_by("index")]


def kinds(case: Case) -> list[str]:
    return list(
        DAG.objects.filter(workflow=case.workflow).order_by("created_at").values_list("kind", flat=True)
    )


def test_too_many_failures_wait_for_a_person_whose_release_loses_nothing(
    stack: Stack, cases: dict[str, Case]
) -> None:
    case = cases["many"]
    held = stack.wait_for(case.name, "held")
    assert held["hold_evidence"]["failure_ratio"] == 0.3
    counts = held["hold_evidence"]["counts"]
    assert [(one["site"], one["exit_code"], one["jobs"]) for one in counts] == [(PURDUE, STORAGE_LOST, 3)]
    errors = stack.get(f"requests/{case.name}/errors")
    top = errors["clusters"][0]
    assert (top["site"], top["share_at_site"], top["share_elsewhere"]) == (PURDUE, 1.0, 0.0)
    assert top["suggestion"]["action"] == "ban_site"
    case.widen()
    body = {"reason": "its storage is gone", "site_bans": [PURDUE]}
    seen = stack.post(f"requests/{case.name}/release", body | {"dry_run": True}, expect=200)["preview"]
    assert (seen["groups_credited"], seen["groups_to_rerun"]) == (7, 3)
    assert seen["sites_left"] == [CERN, DESY]
    stack.post(f"requests/{case.name}/release", body, expect=200)
    stack.wait_for(case.name, "completed")
    first, second = Round.objects.filter(workflow=case.workflow).order_by("number")
    assert (first.groups.filter(status="collected").count(), second.jobs) == (7, 3)
    assert not any(PURDUE in text for text in group_texts(second))
    assert case.written() == case.expected(), "every event once: nothing was lost or run again"
    assert SiteBan.objects.filter(workflow=case.workflow, site=PURDUE).exists()


def test_one_bad_site_is_left_behind_without_an_operator(stack: Stack, cases: dict[str, Case]) -> None:
    case = cases["bad_site"]
    stack.wait_for(case.name, "completed")
    ban = SiteBan.objects.get(workflow=case.workflow)
    assert (ban.site_id, ban.created_by) == (PURDUE, "system:banning")
    assert kinds(case) == ["first", "rescue"]
    moved = MergeGroup.objects.get(round__workflow=case.workflow, site=DESY)
    assert PURDUE not in group_texts(moved.round)[moved.index]
    assert case.written() == case.expected()
    actors = {row["actor"] for row in stack.status_changes(case.name)[1:]}
    assert actors == {"system:lifecycle"}


def test_a_corrupt_file_is_a_named_gap_and_the_rest_is_processed(
    stack: Stack, cases: dict[str, Case]
) -> None:
    case = cases["corrupt"]
    stack.wait_for(case.name, "completed")
    gap = InputFile.objects.get(workflow=case.workflow, state="excluded")
    assert gap.lfn == case.lfn(0)
    assert f"could not be read at {CERN}, {DESY}" in gap.excluded_reason
    assert kinds(case) == ["first", "rescue", "rescue"], "tried at the other copy before it was given up"
    assert case.written() == case.expected(0)
    ledger = stack.get(f"requests/{case.name}/ledger")
    assert [one["lfn"] for one in ledger["excluded_files"]] == [case.lfn(0)]
    assert stack.get(f"requests/{case.name}/errors")["bad_files"] == [
        {"lfn": case.lfn(0), "sites": [CERN, DESY]},
        {"lfn": case.lfn(1), "sites": [CERN]},
    ]
    proved = stack.get(f"quarantine?request_name={case.name}")["results"]
    found = {(row["lfn"], row["site"]): row for row in proved}
    assert set(found) == {(case.lfn(0), CERN), (case.lfn(0), DESY), (case.lfn(1), CERN)}
    assert {row["state"] for row in found.values()} == {"in_force"}
    assert all("15 bytes where" in row["proof"] for row in found.values())
    groups = stack.post("requests/plan", case.document, expect=200)["groups"]
    places = {file["lfn"]: g["sites"] for g in groups for job in g["jobs"] for file in job["files"]}
    assert places[case.lfn(1)] == [DESY], "the next request on this dataset avoids the unreadable copy"


def test_outputs_are_withdrawn_when_an_operator_fails_a_request_without_rescues_left(
    stack: Stack, cases: dict[str, Case]
) -> None:
    case = cases["worn_out"]
    held = stack.wait_for(case.name, "held")
    assert "after 3 rescues" in held["hold_evidence"]["reason"]
    assert kinds(case) == ["first", "rescue", "rescue", "rescue"]
    assert held["progress"]["groups_done"] == 5
    top = stack.get(f"requests/{case.name}/errors")["clusters"][0]
    suggested = top["suggestion"]["action"]
    assert (top["exit_code"], suggested) == (BROKEN_CODE, "retry"), "it ran at one site, and others succeeded"
    assert "failed" not in {row["to_status"] for row in stack.status_changes(case.name)}
    stack.post(f"requests/{case.name}/fail", {"reason": "the code is broken"}, expect=200)
    assert_taken_back(stack, case.name)
    last = stack.status_changes(case.name)[-1]
    assert (last["to_status"], last["reason"]) == ("failed", "the code is broken")
