"""Writes the tree of events of a new ROOT file, in large baskets."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import uproot

from rootfiles.baskets import Basket, append_baskets
from rootfiles.lumis import LumiCounter
from rootfiles.trees import EVENTS, LUMI, RUN, Chunk, Types

BASKET_EVENTS = 50_000  # small chunks are collected until so many events are there
COMPRESSION_LEVEL = 1


class TreeWriter:
    """Appends chunks to one tree."""

    def __init__(self, file: Any, name: str, types: Types) -> None:
        self._tree = file.mktree(name, types)
        self._names = list(types)
        self._waiting: list[Chunk] = []
        self._events = 0
        self.entries = 0
        self.counter = LumiCounter()
        self._counts = RUN in types and LUMI in types

    def write(self, chunk: Chunk) -> None:
        size = len(chunk[self._names[0]])
        if not size:
            return
        self.entries += size
        if self._counts:
            self.counter.add_chunk(chunk)
        self._waiting.append({name: chunk[name] for name in self._names})
        self._events += size
        if self._events >= BASKET_EVENTS:
            self.flush()

    def copy(self, baskets: Mapping[str, Basket], entries: int) -> None:
        """Append baskets as they are stored, without counting their lumis."""
        self.flush()
        self.entries += entries
        append_baskets(self._tree, baskets)

    def flush(self) -> None:
        if self._waiting:
            self._tree.extend(
                {name: np.concatenate([one[name] for one in self._waiting]) for name in self._names}
            )
        self._waiting, self._events = [], 0


@contextmanager
def new_file(path: str, identity: str) -> Iterator[Any]:
    """Yield a new file, which takes its name only on a clean exit; its UUID depends on `identity` alone."""
    target = Path(path)
    temporary = target.with_name(f".{target.name}.{os.getpid()}.tmp")
    try:
        with uproot.recreate(
            temporary,
            compression=uproot.ZLIB(COMPRESSION_LEVEL),
            uuid_function=lambda: uuid.uuid5(uuid.NAMESPACE_OID, identity),
        ) as file:
            yield file
        temporary.replace(target)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


@contextmanager
def new_events(path: str, types: Types, identity: str) -> Iterator[TreeWriter]:
    """Yield a writer of the events of a new file."""
    with new_file(path, identity) as file:
        writer = TreeWriter(file, EVENTS, types)
        yield writer
        writer.flush()
