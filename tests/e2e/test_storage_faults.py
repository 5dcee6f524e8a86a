"""Requests whose storage or input fails, on the sites' XRootD servers: source of the failure and recovery.

The storage of three sites is broken, each with a request of its own; requests with bad input run at the
fourth. When they are held, the faults are cleared and all are released: they must complete with every event.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from condor.submitfile import token_file_name
from dags_app.models import DAG, InputFile, QuarantinedReplica
from dags_app.states import FileState
from lab.grid.description import VARIABLE, Grid
from lab.grid.faults import SiteFaults
from lab.grid.tokens import Signer, build_claims
from lab.seed.datasets import InputBlock, InputDataset
from lab.seed.datasets import InputFile as SeededFile
from lab.seed.documents import monte_carlo, urgent
from lab.seed.formats import ROOT_DEMO, TOY, Format
from lab.seed.storage import Laboratory, Storage, store_dataset
from outputs_app.models import OutputFile
from sandbox.filefacts import checksum
from sandbox.postrecord import read_record
from sandbox.report import read_report
from tests.e2e.conftest import Json, Stack
from tests.pool import schedd, schedd_names
from tests.waiting import until

FNAL, CERN, DESY, PURDUE = "T1_US_FNAL", "T2_CH_CERN", "T2_DE_DESY", "T2_US_Purdue"
BROKEN = {"down": FNAL, "full": CERN, "denied": DESY}
EVENTS, EVENTS_PER_JOB = 20, 10  # two jobs: three failures would ban the site
SLOW_BYTES_PER_SEC = 20_000
NODE = "proc_000000"
SCOPES = ("storage.read:/store", "storage.modify:/store")
JOB_SEC = 15  # longer than the pool takes to give a new token to a running job


def generating(name: str, site: str, **changes: Any) -> Json:
    small = {"RequestNumEvents": EVENTS, "EventsPerJob": EVENTS_PER_JOB, "EventsPerLumi": EVENTS_PER_JOB}
    alone = {"Urgent": True, "FilterEfficiency": 1.0, "SiteWhitelist": [site]}
    return monte_carlo(suffix=name) | small | alone | changes


def dataset_of(name: str, *, files: int, rses: tuple[str, ...]) -> InputDataset:
    dataset = f"/EGamma/Run2024B-Lab{name}-v1/RAW"
    base = f"/store/data/Run2024B/EGamma/RAW/Lab{name}-v1/000381001"
    seeded = tuple(
        SeededFile(f"{base}/{number}.root", rses, 381001, 1 + number, 1, 1 + 100 * number, 20)
        for number in range(files)
    )
    return InputDataset(dataset, "Run2024B", (InputBlock(f"{dataset}#{uuid4()}", rses[:1], seeded),))


@dataclass
class Story:
    """The requests, and the answers of the API about them while they were held."""

    stack: Stack
    mark: str = field(default_factory=lambda: uuid4().hex[:8])
    names: dict[str, str] = field(default_factory=dict)
    held: dict[str, Json] = field(default_factory=dict)
    errors: dict[str, Json] = field(default_factory=dict)
    lfns: dict[str, str] = field(default_factory=dict)  # of bad input files

    def __post_init__(self) -> None:
        self.grid = Grid.load(Path(os.environ[VARIABLE]))
        self.faults = {site: SiteFaults.from_environment(site) for site in self.grid.sites}
        self.storage = Storage(self.stack.storage_prefix)
        self.lab = Laboratory(self.stack.cms_url)

    def submit(self, kind: str, document: Json) -> None:
        self.names[kind] = str(self.stack.post("requests", document)["request_name"])

    def wait_held(self, kind: str) -> None:
        self.held[kind] = self.stack.wait_for(self.names[kind], "held")
        self.errors[kind] = self.stack.get(f"requests/{self.names[kind]}/errors")

    def release(self, kind: str, **modifications: Any) -> None:
        body = {"reason": "the storage works again", **modifications}
        self.stack.post(f"requests/{self.names[kind]}/release", body, expect=200)

    def clusters(self, kind: str) -> list[Json]:
        return list(self.errors[kind]["clusters"])

    # ---- storage that fails ----

    def break_storage(self) -> None:
        self.faults[FNAL].down()
        self.faults[CERN].full()
        self.faults[DESY].deny()
        for kind, site in BROKEN.items():
            toy = {"output_kb_per_event": 4} if kind == "down" else {}  # it will be slow next
            self.submit(kind, generating(f"{kind}{self.mark}", site, PayloadConfig={"toy": toy}))

    def repair_storage(self) -> None:
        """Clear the faults. FNAL is slow then, and CERN hangs until a job has begun to work there."""
        for site in BROKEN.values():
            self.faults[site].clear()
        self.faults[FNAL].slow(SLOW_BYTES_PER_SEC)
        self.faults[CERN].hang()
        self.submit("hanging", generating(f"hanging{self.mark}", CERN, PayloadConfig={"toy": {}}))

    def end_hanging(self) -> None:
        self.running_job("hanging")
        self.faults[CERN].clear()

    def running_job(self, kind: str) -> Path:
        """Wait until the first job of a request runs; return the directory of its group."""
        running = f'CMS_RequestName == "{self.names[kind]}" && CMS_NodeName == "{NODE}" && JobStatus == 2'
        (job,) = until(
            lambda: [ad for one in schedd_names() for ad in schedd(one).query(running, ["Iwd"])], seconds=300
        )
        return Path(job["Iwd"]).parent

    # ---- input that is bad ----

    def seed_replicas(self) -> Json:
        """Create files whose only copies in Rucio are corrupt, truncated or lost, and good ones.

        Most are good: where most jobs fail, the site is blamed instead of the copies.
        """
        dataset = dataset_of(f"r{self.mark}", files=7, rses=("T2_US_Purdue",))
        description = store_dataset(dataset, self.storage)
        self.lab.add("datasets", description)
        corrupt, cut_off, lost, *_ = (file.lfn for file in dataset.blocks[0].files)
        self.lfns |= {"corrupt": corrupt, "cut off": cut_off, "lost": lost}
        self.faults[PURDUE].corrupt(corrupt)
        self.faults[PURDUE].lose(lost)
        path = self.grid.sites[PURDUE].path(cut_off)
        path.write_bytes(path.read_bytes()[:-10])
        self.replicas = dataset
        return self.reading("replicas", dataset)

    def add_good_replicas(self) -> None:
        """Add good copies at DESY, which a release must find."""
        files = self.replicas.blocks[0].files
        moved = tuple(replace(file, rses=("T2_DE_DESY",)) for file in files)
        block = InputBlock(self.replicas.blocks[0].name, ("T2_US_Purdue",), moved)
        description = store_dataset(InputDataset(self.replicas.name, "Run2024B", (block,)), self.storage)
        for file in description["blocks"][0]["files"]:
            file["rses"] = ["T2_US_Purdue", "T2_DE_DESY"]
        self.lab.add("datasets", description)

    def seed_contents(self) -> Json:
        """Create registered ROOT files: empty, truncated, with other events, and a good one."""
        dataset = dataset_of(f"c{self.mark}", files=4, rses=("T2_US_Purdue",))
        description = store_dataset(dataset, self.storage, ROOT_DEMO)
        empty, truncated, fewer, _ = description["blocks"][0]["files"]
        for file, keep in ((empty, 0.0), (truncated, 0.7)):
            path = self.grid.sites[PURDUE].path(file["lfn"])
            content = path.read_bytes()
            path.write_bytes(content[: int(keep * len(content))])
            file["size_bytes"], file["adler32"] = checksum(path)
        fewer["events"] += 5
        self.lab.add("datasets", description)
        self.lfns |= {"empty": empty["lfn"], "truncated": truncated["lfn"], "fewer": fewer["lfn"]}
        return self.reading("contents", dataset, ROOT_DEMO)

    def reading(self, kind: str, dataset: InputDataset, format_: Format = TOY) -> Json:
        document = urgent(input_dataset=dataset.name, suffix=f"{kind}{self.mark}", format_=format_)
        return document | {"SplittingAlgo": "FileBased", "FilesPerJob": 1}

    # ---- a token that ends ----

    def end_token(self) -> None:
        """Replace the token of a running job by one that has ended, until the job has failed."""
        name = self.names["expired"]
        workflow = self.stack.get(f"requests/{name}")["workflow"]["id"]
        path = Path(os.environ["WMS2_CREDENTIAL_DIR"]) / token_file_name(workflow)
        group = self.running_job("expired")
        good = path.read_text()
        claims = build_claims(
            issuer=self.grid.issuer, subject="tests", scopes=SCOPES, lifetime_sec=-60, now=time.time()
        )
        replace_file(path, Signer.load(self.grid.token_key).sign(claims))
        self.first_attempt = group / f"{NODE}.post.0.json"
        until(self.first_attempt.exists, seconds=300)
        replace_file(path, good)


def replace_file(path: Path, text: str) -> None:
    temporary = path.with_name(f"{path.name}.new")
    temporary.write_text(text)
    temporary.chmod(0o600)
    temporary.replace(path)


@pytest.fixture(scope="module")
def story(stack: Stack) -> Iterator[Story]:
    """Run all requests to their ends; every test checks one of them."""
    if not os.environ.get("WMS2_SITE_STORAGE"):
        pytest.skip("the jobs of this stack use plain directories")
    made = Story(stack)
    try:
        made.break_storage()
        made.submit("replicas", made.seed_replicas())
        made.submit("contents", made.seed_contents())
        slow = {"fail_how": "slow_start", "fail_delay_sec": JOB_SEC, "fail_attempts": 1}
        made.submit("expired", generating(f"expired{made.mark}", PURDUE, PayloadConfig={"toy": slow}))
        made.end_token()
        for kind in (*BROKEN, "replicas", "contents"):
            made.wait_held(kind)
        made.repair_storage()
        made.add_good_replicas()
        for kind in (*BROKEN, "replicas"):
            made.release(kind)
        excluded = [made.lfns[which] for which in ("empty", "truncated", "fewer")]
        made.release("contents", excluded_files=excluded)
        made.submit("second", made.reading("second", made.replicas))
        made.end_hanging()
        for name in made.names.values():
            stack.wait_for(name, "completed")
        yield made
    finally:
        for fault in made.faults.values():
            fault.clear()


@pytest.mark.parametrize(
    ("kind", "code", "said"),
    [
        ("down", 60321, "refused"),
        ("full", 60321, "no space left"),
        ("denied", 60322, "403"),
    ],
)
def test_storage_that_fails_is_named_and_every_event_is_written_once_it_works(
    story: Story, stack: Stack, kind: str, code: int, said: str
) -> None:
    (cluster,) = story.clusters(kind)
    assert (cluster["exit_code"], cluster["fault"], cluster["site"]) == (code, "site", BROKEN[kind])
    assert said in cluster["example"].lower()
    assert "/store/unmerged/" in cluster["example"], "the file is named"
    assert BROKEN[kind] in story.held[kind]["hold_evidence"]["reason"]
    numbers = written(stack, story.names[kind])  # those of the failed round are not used again
    assert len(numbers) == len(set(numbers)) == EVENTS


def test_storage_that_hangs_delays_jobs_and_fails_none(story: Story, stack: Stack) -> None:
    assert stack.get(f"requests/{story.names['hanging']}/errors")["clusters"] == []
    assert written(stack, story.names["hanging"]) == list(range(1, EVENTS + 1))


def test_slow_storage_shows_in_the_rate_of_the_transfers(story: Story) -> None:
    """The storage of FNAL was slow after it was repaired."""
    dag = DAG.objects.filter(workflow__request_name=story.names["down"]).latest("created_at")
    report = read_report(Path(dag.submit_dir) / "mg_000000" / "reports" / "merge.report.json")
    (merged,) = [one for one in report.transfers if one.direction == "out"]
    assert merged.bytes_per_sec < 3 * SLOW_BYTES_PER_SEC < merged.size_bytes


@pytest.mark.parametrize(
    ("which", "code", "said"),
    [
        ("corrupt", 8022, "checksum"),
        ("cut off", 8022, "bytes where"),
        ("lost", 8020, "404"),
    ],
)
def test_a_bad_replica_is_named_and_another_one_is_read(
    story: Story, which: str, code: int, said: str
) -> None:
    lfn = story.lfns[which]
    (cluster,) = [one for one in story.clusters("replicas") if lfn in one["bad_files"]]
    assert (cluster["exit_code"], cluster["fault"], cluster["site"]) == (code, "data", PURDUE)
    assert {"lfn": lfn, "sites": [PURDUE]} in story.errors["replicas"]["bad_files"]
    row = InputFile.objects.get(workflow__request_name=story.names["replicas"], lfn=lfn)
    assert row.state == FileState.PROCESSED
    proof = QuarantinedReplica.objects.get(lfn=lfn, site=PURDUE).proof
    assert said in proof


@pytest.mark.parametrize("kind", ["replicas", "second"])
def test_every_event_of_files_with_bad_replicas_is_read_once(story: Story, stack: Stack, kind: str) -> None:
    wanted = [event.event for file in story.replicas.blocks[0].files for event in file.contents()]
    assert written(stack, story.names[kind]) == wanted


def test_a_second_request_avoids_the_bad_replicas(story: Story, stack: Stack) -> None:
    assert stack.get(f"requests/{story.names['second']}/errors")["clusters"] == []


@pytest.mark.parametrize(
    ("which", "code", "said"),
    [("empty", 8022, "no bytes"), ("truncated", 8022, "no bytes"), ("fewer", 8021, "were planned")],
)
def test_a_bad_file_of_the_dataset_is_named_and_may_be_excluded(
    story: Story, stack: Stack, which: str, code: int, said: str
) -> None:
    """The empty and the truncated file fail alike: one of them is the example."""
    lfn = story.lfns[which]
    (cluster,) = [one for one in story.clusters("contents") if lfn in one["bad_files"]]
    assert (cluster["exit_code"], cluster["fault"], cluster["site"]) == (code, "data", PURDUE)
    assert said in cluster["example"]
    found = stack.get(f"requests/{story.names['contents']}/errors")
    assert lfn in [one["lfn"] for one in found["excluded_files"]], "the gap is named"


def test_a_token_that_ends_in_a_running_job_is_our_fault_and_the_retry_succeeds(story: Story) -> None:
    record = read_record(story.first_attempt)
    assert (record.exit_code, record.category, record.retryable) == (99311, "transient", True)
    assert "the job's token ended at" in record.error_message
    assert DAG.objects.filter(workflow__request_name=story.names["expired"]).count() == 1


def written(stack: Stack, name: str) -> list[int]:
    """Return the sorted event numbers in the merged files of a request."""
    rows = OutputFile.objects.filter(block__dataset__workflow__request_name=name).select_related("block")
    found = [event for row in rows for event in stack.events_in(row.lfn, row.block.site).elements()]
    return sorted(number for _, _, number in found)
