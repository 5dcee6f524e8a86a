"""Tokens reach jobs through a real HTCondor, one per workflow, and are renewed while jobs run."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

import pytest

from lab.files import write_atomically
from tests.contract.grid.conftest import HERE
from tests.contract.grid.webdav import Client

PAYLOAD = Path(__file__).with_name("token_job.py")
PATIENCE_SEC = 300.0


def until(condition: Callable[[], bool], what: Callable[[], str]) -> None:
    end = time.monotonic() + PATIENCE_SEC
    while not condition():
        assert time.monotonic() < end, what()
        time.sleep(0.2)


@dataclass(frozen=True)
class Workflows:
    """Nodes of one DAG; each has a workflow of its own with a directory in the storage and a token for it."""

    client: Client
    directory: Path
    credentials: Path
    word: str

    def handle(self, node: str) -> str:
        return f"wf-{self.word}.{node}"

    def give_token(self, node: str) -> None:
        """Write the token file as WMS2 does: complete, private, in one step."""
        token = self.client.token(f"storage.modify:{self.folder(node)}")
        write_atomically(self.credentials / f"cms_{self.handle(node)}.use", token)

    def folder(self, node: str) -> str:
        return f"/store/unmerged/contract/{self.handle(node)}"

    def write(self, node: str, *, denied: str, when: str) -> None:
        urls = [self.client.url(HERE, f"{self.folder(name)}/{node}") for name in (node, denied)]
        words = [str(PAYLOAD), *urls, str(self.client.grid.ca), f"cms_{self.handle(node)}.use", when]
        lines = {
            "executable": sys.executable,
            "arguments": " ".join(words),
            "transfer_executable": "False",
            "request_memory": "200",
            "MY.OAuthServicesNeeded": f'"cms*{self.handle(node)}"',
            "should_transfer_files": "YES",
            "stream_output": "True",
            "output": f"{node}.out",
            "error": f"{node}.err",
            "log": "jobs.log",
        }
        text = "".join(f"{name} = {value}\n" for name, value in lines.items())
        (self.directory / f"{node}.sub").write_text(f"{text}queue\n")

    def submit(self, *nodes: str) -> None:
        (self.directory / "t.dag").write_text("".join(f"JOB {node} {node}.sub\n" for node in nodes))
        subprocess.run(
            ["condor_submit_dag", "t.dag"], cwd=self.directory, check=True, capture_output=True, timeout=60
        )

    def output(self, node: str) -> list[str]:
        path = self.directory / f"{node}.out"
        return path.read_text().split() if path.exists() else []

    def story(self) -> str:
        return "\n".join(
            f"{path.name}: {path.read_text(errors='replace')[-2000:]}"
            for path in sorted(self.directory.iterdir())
            if path.suffix in (".out", ".err", ".log")
        )

    def holds(self) -> str:
        """Return why jobs of the DAG are held."""
        ask = ["condor_q", "-constraint", f'JobStatus == 5 && Iwd == "{self.directory}"', "-af", "HoldReason"]
        return subprocess.run(ask, check=True, capture_output=True, text=True, timeout=60).stdout.strip()


@pytest.fixture
def workflows(client: Client) -> Iterator[Workflows]:
    if "WMS2_CREDENTIAL_DIR" not in os.environ:
        pytest.skip("the pool of CONDOR_CONFIG is not the lab's: where its credentials are is unknown")
    word = uuid4().hex[:8]
    directory = Path(os.environ["WMS2_SUBMIT_ROOT"]) / f"contract-{word}"
    directory.mkdir()
    made = Workflows(client, directory, Path(os.environ["WMS2_CREDENTIAL_DIR"]), word)
    yield made
    subprocess.run(
        ["condor_rm", "-constraint", f'Iwd == "{directory}"'], check=False, capture_output=True, timeout=60
    )
    for path in made.credentials.glob(f"cms_wf-{word}.*"):
        path.unlink()
    for path in client.site(HERE).path("/store/unmerged/contract").glob(f"wf-{word}.*"):
        shutil.rmtree(path)
    shutil.rmtree(directory, ignore_errors=True)


def test_a_job_gets_the_token_of_its_own_workflow_and_no_other(workflows: Workflows) -> None:
    nodes = {"a": "b", "b": "a"}  # and the one whose directory it may not write to
    for node, other in nodes.items():
        workflows.give_token(node)
        workflows.write(node, denied=other, when="go")

    workflows.submit(*nodes)

    until(lambda: all(len(workflows.output(node)) == 4 for node in nodes), workflows.story)
    assert {node: workflows.output(node) for node in nodes} == {
        node: ["started", "same", "201", "403"] for node in nodes
    }


def test_a_token_is_renewed_while_the_job_runs(workflows: Workflows) -> None:
    workflows.give_token("a")
    workflows.write("a", denied="b", when="wait")
    workflows.submit("a")
    until(lambda: workflows.output("a") == ["started"], workflows.story)

    workflows.give_token("a")

    until(lambda: len(workflows.output("a")) == 4, workflows.story)
    assert workflows.output("a") == ["started", "renewed", "201", "403"]


def test_a_job_without_its_token_is_held_with_the_reason(workflows: Workflows) -> None:
    workflows.write("a", denied="b", when="go")

    workflows.submit("a")

    until(lambda: bool(workflows.holds()), workflows.story)
    assert "credentials are not available" in workflows.holds()
