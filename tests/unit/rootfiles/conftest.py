"""ROOT files for tests: real ones, made by the generator, and broken ones."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import uproot

from rootfiles.generate import Generation, generate
from rootfiles.skim import Selection

COMPRESSED = rb"(ZL\x08.{6})(.{20})"  # the header of a compressed block, and its first bytes
MakeFile = Callable[..., str]


@pytest.fixture
def make_file(tmp_path: Path) -> MakeFile:
    """Generate a file of `events` events from number `first` on, ten in each lumi; return its path."""

    def make(name: str, events: int = 100, *, first: int = 1, run: int = 1) -> str:
        path = str(tmp_path / name)
        generate(Generation(run, first, first + events - 1, 1, 10, 1), [path], Selection())
        return path

    return make


def numbers(path: str) -> list[int]:
    """Return the event numbers of a file, in file order."""
    with uproot.open({path: "Events"}) as tree:
        return [int(number) for number in tree["event"].array(library="np")]


def branches(path: str) -> dict[str, Any]:
    with uproot.open({path: "Events"}) as tree:
        return {str(name): array for name, array in tree.arrays(library="np").items()}


def write_trees(path: Path, trees: dict[str, dict[str, Any]]) -> str:
    with uproot.recreate(path) as file:
        for name, columns in trees.items():
            arrays = {key: np.asarray(value) for key, value in columns.items()}
            file.mktree(name, {key: array.dtype for key, array in arrays.items()}).extend(arrays)
    return str(path)


def damaged(path: str, how: str) -> str:
    """Damage a file in place and return its path."""
    content = Path(path).read_bytes()
    broken = {
        "empty": b"",
        "not-root": b"no such format" * 100,
        "truncated": content[: len(content) // 2],
        "unreadable": re.sub(COMPRESSED, lambda found: found[1] + bytes(len(found[2])), content, flags=re.S),
    }
    Path(path).write_bytes(broken[how])
    return path
