"""The tarball of a request: fetched once when its first round is planned, checked, shipped with the DAG."""

from __future__ import annotations

import hashlib
import io
import ssl
import tarfile
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar

import pytest

from dags_app.models import Workflow
from dags_app.planning.types import SitePool
from dags_app.services import production
from dags_app.services.production import PlanRefused
from dags_app.services.user_sandboxes import path_of
from wms2_project.errors import ServiceUnavailable

pytestmark = pytest.mark.django_db


def tarball(name: str = "run") -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        archive.addfile(tarfile.TarInfo(name))
    return buffer.getvalue()


class Files(BaseHTTPRequestHandler):
    """Serves `content` by path; a number is an answer without content."""

    content: ClassVar[dict[str, bytes | int]] = {}
    asked: ClassVar[list[str]] = []

    def do_GET(self) -> None:
        self.asked.append(self.path)
        found = self.content.get(self.path, 404)
        self.send_response(found if isinstance(found, int) else 200)
        self.send_header("Content-Length", "0" if isinstance(found, int) else str(len(found)))
        self.end_headers()
        if isinstance(found, bytes):
            self.wfile.write(found)

    def log_message(self, *args: Any) -> None:
        """Silence."""


@pytest.fixture
def files(certificate: Path, settings: Any) -> Iterator[str]:
    """Yield the address of a file server that WMS2 may use."""
    settings.SANDBOX_HOSTS, settings.SANDBOX_CA_BUNDLE = ["localhost"], str(certificate)
    server = ThreadingHTTPServer(("127.0.0.1", 0), Files)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    Files.content, Files.asked = {}, []
    yield f"https://localhost:{server.server_port}"
    server.shutdown()
    server.server_close()


def use(workflow: Workflow, url: str, data: bytes) -> None:
    """Make the workflow run a command from the tarball at the URL."""
    digest = hashlib.sha256(data).hexdigest()
    workflow.sandbox_url = url
    workflow.payload_config = {"kind": "command", "command": ["./run"], "sandbox_sha256": digest}
    workflow.save()


def test_the_tarball_is_shipped_to_the_jobs_that_run_it(
    workflow: Workflow, sites: SitePool, files: str
) -> None:
    data = tarball()
    Files.content["/good.tar.gz"] = data
    use(workflow, f"{files}/good.tar.gz", data)
    dag = production.plan_round(workflow=workflow, sites=sites, priority=5)

    directory = Path(dag.submit_dir)
    assert (directory / "user_sandbox.tar.gz").read_bytes() == data
    for name, ships in (("proc", True), ("merge", True), ("cleanup", False), ("landing", False)):
        text = (directory / f"{name}.sub").read_text()
        assert ("../../user_sandbox.tar.gz" in text) is ships, name
    assert Files.asked == ["/good.tar.gz"]
    assert path_of(hashlib.sha256(data).hexdigest()).exists()


def test_a_tarball_that_is_kept_is_not_fetched_again(workflow: Workflow, sites: SitePool, files: str) -> None:
    data = tarball("other")
    kept = path_of(hashlib.sha256(data).hexdigest())
    kept.parent.mkdir(parents=True)
    kept.write_bytes(data)
    use(workflow, f"{files}/gone.tar.gz", data)
    dag = production.plan_round(workflow=workflow, sites=sites, priority=5)

    assert (Path(dag.submit_dir) / "user_sandbox.tar.gz").read_bytes() == data
    assert Files.asked == []


@pytest.mark.parametrize(
    ("path", "content", "expected", "words"),
    [
        ("/changed", tarball("a"), tarball("b"), "has the SHA-256"),
        ("/text", b"text", b"text", "not a complete tarball"),
        ("/outside", tarball("../x"), tarball("../x"), r"\.\./x"),
        ("/missing", 404, tarball(), "404"),
        ("/elsewhere", 302, tarball(), "302"),
    ],
)
def test_another_file_than_the_one_named_waits_for_a_person(
    workflow: Workflow, sites: SitePool, files: str, path: str, content: Any, expected: bytes, words: str
) -> None:
    Files.content[path] = content
    use(workflow, files + path, expected)
    with pytest.raises(PlanRefused, match=words):
        production.plan_round(workflow=workflow, sites=sites, priority=5)

    assert not path_of(hashlib.sha256(expected).hexdigest()).exists()


def test_a_file_that_is_too_large_is_refused(
    workflow: Workflow, sites: SitePool, files: str, settings: Any
) -> None:
    settings.SANDBOX_MAX_BYTES, data = 10, tarball()
    Files.content["/large"] = data
    use(workflow, f"{files}/large", data)
    with pytest.raises(PlanRefused, match="more than 10 bytes"):
        production.plan_round(workflow=workflow, sites=sites, priority=5)


def test_a_failing_server_is_called_again_later(workflow: Workflow, sites: SitePool, files: str) -> None:
    Files.content["/busy"] = 503
    use(workflow, f"{files}/busy", tarball())
    with pytest.raises(ServiceUnavailable, match="503"):
        production.plan_round(workflow=workflow, sites=sites, priority=5)
    assert not list(Path(path_of("x").parent).glob("*"))


def test_groups_have_one_job_where_files_cannot_be_joined(workflow: Workflow, sites: SitePool) -> None:
    workflow.payload_config = {"kind": "command", "command": ["/bin/true"], "merge": {"tool": "copy"}}
    workflow.save()
    dag = production.plan_round(workflow=workflow, sites=sites, priority=5)

    assert dag.round.jobs > 1
    assert set(dag.round.groups.values_list("jobs", flat=True)) == {1}


def test_a_workflow_of_an_unknown_kind_is_not_planned(
    workflow: Workflow, sites: SitePool, settings: Any
) -> None:
    settings.PAYLOAD_PLUGINS, settings.DEFAULT_PAYLOAD = [], ""
    workflow.payload_config = {}
    workflow.save()
    with pytest.raises(PlanRefused, match="command, jobscript, merge, root-demo"):
        production.plan_round(workflow=workflow, sites=sites, priority=5)
