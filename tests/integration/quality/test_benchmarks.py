"""Benchmarks on the database run in small, so that a change of the product does not break them unseen."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]
WITH_DATABASE = ("B5", "B6", "B7", "B8", "B10", "B11", "B19", "B20")


def test_benchmarks_on_the_database_run_in_small(tmp_path: Path) -> None:
    record = tmp_path / "record.json"
    command = [sys.executable, "-m", "benchmarks", *WITH_DATABASE, "--quick", "--json", str(record)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    verdicts = {one["id"]: one["verdict"] for one in json.loads(record.read_text())["results"]}
    assert verdicts == dict.fromkeys(WITH_DATABASE, "quick"), done.stdout
