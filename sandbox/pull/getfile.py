"""The programs `wms2-get-file` and `wms2-allocated-files`, which a jobscript runs.

They know the address of WMS2 and the token for allocations from the file `WMS2_FILES` in the environment, and
add what was lent to the list beside it.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from sandbox.pull.client import Client, Refused, Unreachable

SETTINGS, ALLOCATED = "files.json", "allocated.jsonl"
NONE_LEFT = 1


def main(arguments: Sequence[str]) -> int:
    """Print `DID PFN RSE` of the next file and return 0, or print nothing and return 1 if there is none."""
    program, rest = Path(arguments[0]).name, list(arguments[1:])
    directory = Path(os.environ["WMS2_FILES"])
    if program.endswith("allocated-files"):
        for file in read_allocated(directory):
            sys.stdout.write(f"{_line(file)}\n")
        return 0
    parser = argparse.ArgumentParser(prog=program, description="Ask WMS2 for the next file to process.")
    parser.add_argument(
        "--seconds-needed", type=int, default=0, help="give nothing if the slot has less time left"
    )
    given = parser.parse_args(rest)
    settings = json.loads((directory / SETTINGS).read_text("utf-8"))
    if settings["ends_at"] - time.time() < given.seconds_needed:
        sys.stderr.write(f"{program}: the slot has less than {given.seconds_needed} seconds left\n")
        return NONE_LEFT
    return _get_file(program, directory, settings)


def _get_file(program: str, directory: Path, settings: dict[str, Any]) -> int:
    client = Client(settings["url"], settings["workflow_id"], settings["ca_file"], settings["patience_sec"])
    try:
        answer = client.post("allocate", {"count": 1, "call": str(uuid.uuid4())}, token=settings["token"])
    except (Refused, Unreachable) as error:
        sys.stderr.write(f"{program}: {error}\n")
        return NONE_LEFT
    for file in answer["files"]:
        with open(directory / ALLOCATED, "a", encoding="utf-8") as handle:
            handle.write(json.dumps(file) + "\n")
        sys.stdout.write(f"{_line(file)}\n")
    return 0 if answer["files"] else NONE_LEFT


def _line(file: dict[str, Any]) -> str:
    return " ".join((file["lfn"], file["pfn"] or file["lfn"], file["rse"] or "-"))


def read_allocated(directory: Path) -> list[dict[str, Any]]:
    """Return the files that were lent; lines that a jobscript damaged are left out."""
    found = []
    try:
        lines = (directory / ALLOCATED).read_text("utf-8", "replace").splitlines()
    except OSError:
        return []
    for line in lines:
        try:
            file = json.loads(line)
        except ValueError:
            continue
        if isinstance(file, dict) and isinstance(file.get("lfn"), str) and isinstance(file.get("pfn"), str):
            found.append(file)
    return found


if __name__ == "__main__":
    sys.exit(main(sys.argv))
