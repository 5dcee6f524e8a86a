"""Opens the trees of ROOT files and translates what can go wrong into RootFileError."""

from __future__ import annotations

import os
import struct
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, BinaryIO

import numpy as np
import uproot

from rootfiles.errors import (
    BRANCHES_DIFFER,
    EMPTY,
    MISSING_BRANCH,
    MISSING_TREE,
    NOT_ROOT,
    TRUNCATED,
    UNREACHABLE,
    UNREADABLE,
    UNSUPPORTED,
    RootFileError,
)
from rootfiles.remote import open_url

EVENTS = "Events"
RUN, LUMI, EVENT = "run", "luminosityBlock", "event"
STEP_BYTES = "32 MB"  # of uncompressed data that is held at once
HEADER_BYTES = 64
_BIG_VERSION = 1_000_000  # from this version on, addresses have 64 bits

Array = np.ndarray[Any, np.dtype[Any]]
Chunk = dict[str, Array]
Types = dict[str, "np.dtype[Any]"]
Source = str | BinaryIO


@contextmanager
def open_file(source: Source) -> Iterator[Any]:
    """Yield the open uproot directory of a path, an https://, davs:// or root:// URL, or a file object.

    Raises RootFileError, also for what goes wrong while the file is read inside the block.
    """
    name = source if isinstance(source, str) else ""
    try:
        with _handle(source) as handle:
            if isinstance(handle, str):
                with uproot.open(handle) as directory:
                    yield directory
            else:
                check_header(handle, name)
                with uproot.open(handle) as directory:
                    yield directory
    except RootFileError as error:
        raise error if error.source else RootFileError(error.kind, error.message, source=name) from error
    except FileNotFoundError as error:
        raise RootFileError(UNREACHABLE, "there is no such file", source=name) from error
    except ImportError as error:  # the package that reads root:// URLs
        raise RootFileError(UNSUPPORTED, f"this Python cannot read it: {error}", source=name) from error
    except (
        uproot.DeserializationError,
        struct.error,
        zlib.error,
        ValueError,
        TypeError,
        LookupError,
        ArithmeticError,
        AssertionError,
        NotImplementedError,
        OSError,
        AttributeError,
    ) as error:
        message = f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"
        raise RootFileError(UNREADABLE, message, source=name) from error  # fmt: skip


@contextmanager
def _handle(source: Source) -> Iterator[str | BinaryIO]:
    if not isinstance(source, str):
        yield source
    elif source.startswith(("root://", "roots://")):
        yield source  # uproot reads it by XRootD, if its packages are there
    else:
        remote = source.startswith(("https://", "davs://"))
        with open_url(source) if remote else open(source, "rb") as handle:
            yield handle


def check_header(handle: BinaryIO, name: str) -> None:
    """Raise RootFileError unless the file begins as a ROOT file and is as long as its header says."""
    size = handle.seek(0, os.SEEK_END)
    handle.seek(0)
    header = handle.read(HEADER_BYTES)
    handle.seek(0)
    if not size:
        raise RootFileError(EMPTY, "the file has no bytes", source=name)
    if not header.startswith(b"root"):
        raise RootFileError(NOT_ROOT, "the file does not begin as a ROOT file", source=name)
    if len(header) < HEADER_BYTES:
        raise RootFileError(TRUNCATED, f"the file ends after {size} bytes", source=name)
    version, _begin = struct.unpack(">ii", header[4:12])
    (end,) = (
        struct.unpack(">q", header[12:20]) if version >= _BIG_VERSION else struct.unpack(">i", header[12:16])
    )
    if size < end:
        raise RootFileError(TRUNCATED, f"the file has {size} of {end} bytes", source=name)


def tree_names(directory: Any) -> list[str]:
    """Return the trees of a file, without cycle numbers."""
    found = directory.classnames(recursive=True, cycle=False).items()
    return [name for name, kind in found if kind in ("TTree", "ROOT::RNTuple")]


def events_tree(directory: Any) -> Any:
    """Return the tree of the events. Raises RootFileError if the file has none."""
    if EVENTS not in tree_names(directory):
        raise RootFileError(MISSING_TREE, f"the file has no tree {EVENTS}")
    return directory[EVENTS]


def types_of(tree: Any) -> Types:
    """Return the branches and their types. Raises RootFileError for one that is not a plain number."""
    types: Types = {}
    if not hasattr(tree, "branches"):
        raise RootFileError(UNSUPPORTED, f"{tree.name} is not a TTree; merge such files with hadd")
    for branch in tree.branches:
        dtype = getattr(branch.interpretation, "numpy_dtype", None)
        if dtype is None or dtype.kind not in "biuf" or dtype.shape:
            message = f"branch {branch.name} of {tree.name} is not a plain number; merge such files with hadd"
            raise RootFileError(UNSUPPORTED, message)
        types[branch.name] = dtype.newbyteorder("=")
    return types


def check_types(found: Types, first: Types) -> None:
    """Raise RootFileError if a file has other branches than the first one."""
    if found != first:
        names = sorted({name for name in {*found, *first} if found.get(name) != first.get(name)})
        raise RootFileError(BRANCHES_DIFFER, f"not as in the first file: {', '.join(names)[:300]}")


def require(types: Mapping[str, Any], names: Sequence[str]) -> None:
    """Raise RootFileError unless the branches are there."""
    missing = [name for name in names if name not in types]
    if missing:
        raise RootFileError(MISSING_BRANCH, f"the tree has no branch {', '.join(missing)}")


def chunks(tree: Any, names: Sequence[str], *, start: int = 0, stop: int | None = None) -> Iterator[Chunk]:
    """Yield the entries start … stop - 1 in order, as much as fits into memory at a time."""
    end = tree.num_entries if stop is None else stop
    if start < end:
        yield from tree.iterate(
            list(names), entry_start=start, entry_stop=end, step_size=STEP_BYTES, library="np"
        )
