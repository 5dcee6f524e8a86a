"""Copies baskets from tree to tree as they are stored, as `hadd` does: nothing is decompressed or compressed.

Damaged bytes are copied as well: compare the checksum of a file before it is merged.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import uproot

from rootfiles.trees import Array, Types

MIN_EVENTS = 10_000  # smaller baskets are worth being collected into large ones
MAX_BLOCK_BYTES = 2**24 - 1  # what ROOT compresses into one block
KEY = struct.Struct(">ihiIh")  # bytes of key and content, version, uncompressed bytes, date, bytes of the key
BLOCK_HEADER_BYTES = 9  # algorithm (2), method, compressed and uncompressed size (3 each)


@dataclass(frozen=True, slots=True)
class Basket:
    """The content of one basket as it is stored."""

    stored: bytes
    dtype: np.dtype[Any]
    entries: int

    @property
    def size(self) -> int:
        return self.entries * self.dtype.itemsize


class _Stored(uproot.ZLIB):  # type: ignore[misc]
    """The compression of a basket that is compressed already: gives out its block."""

    def __init__(self, stored: bytes) -> None:
        super().__init__(1)
        self._2byte, self._method = stored[:2], stored[2:3]
        self._block = stored[BLOCK_HEADER_BYTES:]

    def compress(self, _data: bytes) -> bytes:
        return self._block


def pieces(tree: Any, types: Types) -> Iterator[tuple[int, int, dict[str, Basket] | None]]:
    """Yield all entries as ranges [start, stop), each with its baskets if they can be copied."""
    edges = _edges(tree)
    if not edges:
        yield 0, int(tree.num_entries), None
        return
    for number, (start, stop) in enumerate(pairwise(edges)):
        yield start, stop, _read_baskets(tree, types, number, stop - start)


def _edges(tree: Any) -> list[int]:
    """Return where baskets begin and end; nothing unless all branches have the same, large ones."""
    edges = {tuple(branch.entry_offsets) for branch in tree.branches}
    if len(edges) != 1 or any(branch.embedded_baskets for branch in tree.branches):
        return []
    (found,) = edges
    return [] if tree.num_entries < MIN_EVENTS * max(len(found) - 1, 1) else list(found)


def _read_baskets(tree: Any, types: Types, number: int, entries: int) -> dict[str, Basket] | None:
    """Return one basket of every branch; None if one of them cannot be copied."""
    found = {}
    for name, dtype in types.items():
        basket = Basket(_content(tree[name], number), dtype.newbyteorder(">"), entries)
        if not _can_be_copied(basket):
            return None
        found[name] = basket
    return found


def _content(branch: Any, number: int) -> bytes:
    chunk, cursor = branch.basket_chunk_cursor(number)
    size, _, _, _, key_bytes = KEY.unpack(chunk.get(cursor.index, cursor.index + KEY.size, cursor, {}))
    return bytes(chunk.get(cursor.index + key_bytes, cursor.index + size, cursor, {}))


def _can_be_copied(basket: Basket) -> bool:
    if len(basket.stored) == basket.size:
        return True  # not compressed
    header = basket.stored[:BLOCK_HEADER_BYTES]
    block, size = (int.from_bytes(header[start : start + 3], "little") for start in (3, 6))
    return size == basket.size <= MAX_BLOCK_BYTES and block == len(basket.stored) - BLOCK_HEADER_BYTES


def append_baskets(tree: Any, baskets: Mapping[str, Basket]) -> None:
    """Append one basket to every branch of a tree that is written."""
    usual = tree.compression
    arrays: dict[str, Array] = {}
    for name, basket in baskets.items():
        plain = len(basket.stored) == basket.size
        tree[name].compression = None if plain else _Stored(basket.stored)
        if plain:
            arrays[name] = np.frombuffer(basket.stored, basket.dtype)
        else:  # only its length matters
            arrays[name] = np.broadcast_to(np.zeros((), basket.dtype), (basket.entries,))
    try:
        tree.extend(arrays)
    finally:
        tree.compression = usual
