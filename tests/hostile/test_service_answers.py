"""A service that answers with broken records is unavailable; it does not crash a worker with a KeyError."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from cms.dbs import DbsClient, DbsConfig
from wms2_project.errors import ServiceUnavailable

DATASET = "/A/B-v1/RAW"
BLOCK = f"{DATASET}#a"
LFN = "/store/data/a.root"
FILE = {"logical_file_name": LFN, "file_size": 10, "event_count": 5, "block_name": BLOCK}
LUMI = {"logical_file_name": LFN, "run_num": 1, "lumi_section_num": 1}


@pytest.fixture
def answering() -> Iterator[Callable[[dict[str, Any]], DbsClient]]:
    """Return a client of a server that answers each path with the given rows."""
    rows: dict[str, Any] = {}

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = json.dumps(rows.get(self.path.split("?")[0].rpartition("/")[2], [])).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    url = f"http://127.0.0.1:{server.server_port}/dbs"

    def client(wanted: dict[str, Any]) -> DbsClient:
        rows.update(wanted)
        return DbsClient(DbsConfig(reader_url=url, writer_url=url))

    yield client
    server.shutdown()
    server.server_close()


def test_whole_records_are_read(answering: Callable[[dict[str, Any]], DbsClient]) -> None:
    (file,) = answering({"files": [FILE], "filelumis": [LUMI]}).block_files(BLOCK)
    assert (file.lfn, file.size_bytes, file.events, file.lumis) == (LFN, 10, 5, ((1, 1, 1),))


@pytest.mark.parametrize(
    ("path", "row", "field"),
    [
        ("files", {"file_size": 10}, "logical_file_name"),
        ("files", FILE | {"logical_file_name": None}, "logical_file_name"),
        ("files", FILE | {"file_size": "many"}, "file_size"),
        ("files", FILE | {"event_count": -1}, "event_count"),
        ("files", FILE | {"event_count": [5]}, "event_count"),
        ("filelumis", {"logical_file_name": LFN, "run_num": 1}, "lumi_section_num"),
        ("filelumis", LUMI | {"run_num": "first"}, "run_num"),
        ("filelumis", LUMI | {"lumi_section_num": [1, None]}, "lumi_section_num"),
    ],
)
def test_broken_records_of_a_block_are_refused_by_field(
    answering: Callable[[dict[str, Any]], DbsClient], path: str, row: dict[str, Any], field: str
) -> None:
    dbs = answering({"files": [FILE], "filelumis": [LUMI], path: [row]})
    with pytest.raises(ServiceUnavailable, match=field):
        dbs.block_files(BLOCK)


@pytest.mark.parametrize("row", [{}, {"dataset": DATASET}, {"dataset_access_type": "VALID"}])
def test_a_dataset_without_its_facts_is_refused(
    answering: Callable[[dict[str, Any]], DbsClient], row: dict[str, Any]
) -> None:
    with pytest.raises(ServiceUnavailable, match="dataset"):
        answering({"datasets": [row]}).dataset(DATASET)


def test_a_block_without_a_name_is_refused(answering: Callable[[dict[str, Any]], DbsClient]) -> None:
    with pytest.raises(ServiceUnavailable, match="block_name"):
        answering({"blocks": [{"block_size": 1}]}).blocks(DATASET)
