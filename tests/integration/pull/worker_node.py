"""A worker node: runs jobs of a planned round as HTCondor does, against WMS2 over HTTP in this process."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from socketserver import ThreadingMixIn
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

from django.conf import settings
from django.core.wsgi import get_wsgi_application
from django.db import connections
from django.utils import timezone

from dags_app.models import DAG, InputFile, Workflow
from dags_app.pull.rounds import plan_pull_round
from sites_app.selectors import usable_sites
from tests.integration.pull.factories import CERN

Hook = Callable[[str], None]
GROUP = "mg_000000"


class _Server(ThreadingMixIn, WSGIServer):
    daemon_threads = True

    def handle_error(self, *_: Any) -> None:
        """Log nothing about killed jobs."""


class _Handler(WSGIRequestHandler):
    def log_message(self, *_: Any) -> None:
        """Log nothing."""


class AnswerLost(Exception):
    """Raised by a hook: the job gets no answer, as if the web process had died."""


@dataclass
class Wms2:
    """Server of WMS2 for jobs.

    Hooks get the name of each call, before it and between its commit and answer.
    """

    url: str = ""
    answers: list[tuple[str, int]] = field(default_factory=list)
    before: Hook = lambda call: None
    after: Hook = lambda call: None

    def __call__(self, environ: Any, start_response: Any) -> Any:
        call = environ["PATH_INFO"].rpartition("/")[2]

        def start(status: str, headers: Any) -> Any:
            self.answers.append((call, int(status[:3])))
            return start_response(status, headers)

        try:
            self.before(call)
            answer = list(_application(environ, start))
            self.after(call)
        except AnswerLost:
            start_response("502 Bad Gateway", [], sys.exc_info())
            return [b""]
        finally:
            connections.close_all()
        return answer


_application = get_wsgi_application()


@contextmanager
def serving() -> Iterator[Wms2]:
    """Serve WMS2 to jobs on a free port."""
    made = Wms2()
    server = make_server("127.0.0.1", 0, made, _Server, _Handler)
    made.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield made
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@dataclass
class WorkerNode:
    """Runs jobs of one workflow's rounds in scratch directories of their own."""

    root: Path
    workflow: Workflow
    wall_minutes: int = 60
    dag: DAG | None = None
    place: Path = Path()
    job: subprocess.Popen[bytes] | None = None
    _count: int = 0

    def plan(self) -> DAG:
        """Plan the next round of the workflow."""
        pool = usable_sites(workflow=self.workflow, now=timezone.now())
        self.dag = plan_pull_round(workflow=self.workflow, sites=pool, priority=1, edited={})
        return self.dag

    def store(self, file: InputFile, content: bytes) -> None:
        """Put a file of the ledger on the storage of its first place."""
        path = Path(f"{settings.SITE_STORAGE[file.locations[0]][0]}{file.lfn}")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        file.size_bytes, file.adler32 = len(content), f"{zlib.adler32(content):08x}"
        file.save(update_fields=["size_bytes", "adler32"])

    def start(self, *, site: str = CERN, node: str = "proc_000000") -> subprocess.Popen[bytes]:
        """Start a job as HTCondor does, with the files that it would transfer and its ads."""
        assert self.dag is not None
        directory = Path(self.dag.submit_dir)
        self._count += 1
        place = self.place = self.root / f"scratch-{self._count}"
        place.mkdir(parents=True)
        for path in (*directory.glob("*"), *(directory / GROUP).glob("*")):
            if path.name in ("run.sh", "sandbox.tar.gz", "jobs.json", "payload.json", "storage.json"):
                shutil.copy(path, place)
        (place / ".machine.ad").write_text(f'GLIDEIN_CMSSite = "{site}"\nName = "slot1@{site}"\n')
        (place / ".job.ad").write_text(f"ClusterId = 1\nProcId = 0\nMaxWallTimeMins = {self.wall_minutes}\n")
        environment = {
            "PATH": os.environ["PATH"], "WMS2_ATTEMPT": "0", "WMS2_PYTHON": sys.executable,
            "_CONDOR_MACHINE_AD": str(place / ".machine.ad"), "_CONDOR_JOB_AD": str(place / ".job.ad"),
        }  # fmt: skip
        log = (place / ".log").open("wb")
        self.job = subprocess.Popen(
            ["./run.sh", "runner", node, "none"], cwd=place, env=environment, stdin=subprocess.DEVNULL,
            stdout=log, stderr=log, start_new_session=True,
        )  # fmt: skip
        return self.job

    def run(self, **values: Any) -> dict[str, Any]:
        """Run a job to its end; return its report."""
        job = self.start(**values)
        job.wait(timeout=300)
        (report,) = (self.place / "back").glob("*.report.json")
        return dict(json.loads(report.read_text()))

    def kill(self, *_: Any) -> None:
        """Kill all processes of the job, as a power failure does."""
        if self.job is not None and self.job.poll() is None:
            os.killpg(self.job.pid, signal.SIGKILL)
            self.job.wait(timeout=60)

    @property
    def log(self) -> str:
        """Output of the job."""
        return (self.place / ".log").read_text(errors="replace")
