"""No text of a user reaches a submit file: checked with HTCondor's reader and a command that would run."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import htcondor2
import pytest
from django.utils import timezone
from rest_framework.test import APIClient

from dags_app.services.production import plan_round
from requests_app.documents.table import DOCUMENT as FIELDS
from requests_app.models import Request
from sites_app.selectors import usable_sites
from tests.integration.factories import DOCUMENT, make_site

pytestmark = pytest.mark.django_db
GENERATED = {key: value for key, value in DOCUMENT.items() if key != "input_dataset"} | {
    "total_events": 100, "splitting_algo": "EventBased", "splitting_params": {"events_per_job": 50},
}  # fmt: skip
SHAPES: dict[str, Callable[[str], Any]] = {
    "text": lambda text: text,
    "list": lambda text: [text],
    "object": lambda text: {text: text, "name": text, "kind": "toy"},
    "dataset": lambda text: f"/Muons/Run{text}/AOD",
}

IGNORED = ("submitted_by", "SubmittedBy", "Anything")  # accepted, and used for nothing
PAYLOAD = ("payload_config", "PayloadConfig")  # an object of free text


def hostile(canary: Path) -> str:
    """Return text of which any line in a submit file runs a command when the file is read."""
    return f'x"\nqueue\ninclude command : /usr/bin/touch {canary}\n'


def dry_run(directory: Path, submit_file: str, *values: str) -> subprocess.CompletedProcess[str]:
    command = [f"{htcondor2.param['BIN']}/condor_submit", "-dry-run", "-", *values, submit_file]
    return subprocess.run(command, cwd=directory, capture_output=True, text=True, check=False)


def test_the_canary_bites(tmp_path: Path) -> None:
    canary = tmp_path / "canary"
    name = f"ana{hostile(canary)}"
    (tmp_path / "naive.sub").write_text(f'executable = /bin/true\nMy.CMS_RequestName = "{name}"\nqueue\n')
    dry_run(tmp_path, "naive.sub")
    assert canary.exists(), "HTCondor ran nothing: this canary proves nothing"


@pytest.mark.parametrize("shape", sorted(SHAPES))
def test_no_hostile_field_reaches_a_submit_file(requestor: APIClient, tmp_path: Path, shape: str) -> None:
    make_site()
    canary = tmp_path / "canary"
    for field in [*(name for one in FIELDS for name in (one.name, one.reqmgr2)), "comments", "Anything"]:
        own = {"request_name": f"r_{shape}_{field}", "output_datasets": [f"/Muons/Run2031A-{field}-v1/AOD"]}
        base = {
            name: value for name, value in GENERATED.items() if field not in PAYLOAD or name not in PAYLOAD
        }
        document = base | own | {field: SHAPES[shape](hostile(canary))}
        answer = requestor.post("/api/v1/requests", document)
        free = field in IGNORED or (shape == "object" and field in PAYLOAD)
        assert answer.status_code == (201 if free else 422), (field, answer.content)
    for row in Request.objects.select_related("workflow"):
        check_directory(row, canary)
    assert not canary.exists()


def check_directory(row: Request, canary: Path) -> None:
    sites = usable_sites(workflow=row.workflow, now=timezone.now())
    directory = Path(plan_round(workflow=row.workflow, sites=sites, priority=row.priority).submit_dir)
    read_by_condor = [
        path for path in directory.rglob("*") if path.suffix in (".sub", ".dag", ".config", ".inc")
    ]
    assert len(read_by_condor) >= 6
    for path in read_by_condor:
        assert "canary" not in path.read_text(), path
    group = directory / "mg_000000"
    variables = re.search(r"^VARS (proc_\w+) (.*)$", (group / "group.dag").read_text(), re.MULTILINE)
    assert variables is not None
    node, given = variables[1], re.findall(r'(\w+)="([^"]*)"', variables[2])
    values = [f"{key}={value.replace('$(JOB)', node).replace('$(RETRY)', '0')}" for key, value in given]
    (group / "raised.inc").touch()  # the landing leaves these two
    (group / "reports").mkdir(exist_ok=True)
    output = dry_run(group, "../proc.sub", *values)
    assert output.returncode == 0, output.stderr
    assert "canary" not in output.stdout
