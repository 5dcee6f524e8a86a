"""B32: write small files to a site's storage and read them, by WebDAV with a token, against plain copies."""

from __future__ import annotations

import base64
import json
import os
import shutil
import ssl
import urllib.parse
import urllib.request
from pathlib import Path
from uuid import uuid4

from benchmarks.dagfiles import scratch
from benchmarks.harness import Measured, alternate, timed
from benchmarks.run import NotRun, Run
from sandbox.storage import Storage

GRID = "WMS2_LAB_GRID"
FILES = 1000
FILE_BYTES = 10_000
SCOPE = "storage.read:/store storage.modify:/store"


def move_small_files(run: Run) -> Measured:
    """B32. Both sync every file to disk before the next one; the storage also verifies it."""
    if not os.environ.get(GRID):
        raise NotRun(f"{GRID} names no grid: run it by ./wms2 bench")
    grid = json.loads(Path(os.environ[GRID]).read_text())
    directory, files = scratch(), run.size(FILES, 20)
    local, back = directory / "local.root", directory / "back.root"
    local.write_bytes(os.urandom(FILE_BYTES))
    token = _token(grid)
    storage = Storage(token=lambda: token, ca_file=grid["ca"])
    prefix = f"{min(grid['sites'].values(), key=str)['davs']}/store/unmerged/bench-{uuid4().hex}"

    def by_storage() -> None:
        for number in range(files):
            storage.put(local, f"{prefix}/{number}.root")
            storage.get(f"{prefix}/{number}.root", back)

    def by_copying() -> None:
        for number in range(files):
            _copy(local, directory / f"{number}.root")
            _copy(directory / f"{number}.root", back)

    try:
        pairs = alternate(timed(by_storage), timed(by_copying), repeat=run.repeat)
    finally:
        for entry in storage.list(prefix):
            storage.delete(f"{prefix}/{entry.name}")
        storage.remove_directory(prefix)
        storage.close()
    note = f"{files} files of {FILE_BYTES // 1000} kB each way"
    return Measured(pairs.ratio, pairs.as_samples(), note=note, spread=pairs.spread)


def _copy(source: Path, target: Path) -> None:
    shutil.copyfile(source, target)
    handle = os.open(target, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _token(grid: dict[str, str]) -> str:
    secret = Path(grid["client_secret_file"]).read_text().strip()
    basic = base64.b64encode(f"{grid['client_id']}:{secret}".encode()).decode()
    form = urllib.parse.urlencode({"grant_type": "client_credentials", "scope": SCOPE}).encode()
    headers = {"Authorization": f"Basic {basic}"}
    request = urllib.request.Request(f"{grid['issuer']}/token", data=form, headers=headers)  # noqa: S310
    tls = ssl.create_default_context(cafile=grid["ca"])
    with urllib.request.urlopen(request, timeout=30, context=tls) as answer:  # noqa: S310
        return str(json.load(answer)["access_token"])
