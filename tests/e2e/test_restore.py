"""After the database was restored from a backup, requests end, and nothing is done twice."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from django.db import connection

from dags_app.adapters import dbs
from dags_app.models import DAG
from lab.services.postgres import binaries_for, connect
from outputs_app.models import OutputBlock
from tests.e2e.conftest import Stack
from tests.e2e.test_survival import kill
from tests.pool import clusters
from tests.waiting import until


class Cluster:
    """The private PostgreSQL of the stack, as its administrator sees it."""

    def __init__(self, stack: Stack) -> None:
        state = stack.state / "data"
        self.data, self.lost = state / "pg", state / "pg-lost"
        self.backup, self.archive = state / "pg-backup", state / "pg-archive"
        if not self.data.exists():
            pytest.skip("the database is not private: DATABASE_URL is set")
        self.password = (state / "postgres.secret").read_text().strip()
        self.port = int(connection.settings_dict["PORT"])

    @contextmanager
    def archiving(self) -> Iterator[None]:
        """Keep a copy of the write-ahead log while the block runs.

        The slot makes the server keep the log until it was received.
        """
        self.archive.mkdir()
        receive = [*self._program("pg_receivewal", self.archive), "--slot", "wms2_tests"]
        subprocess.run([*receive, "--create-slot"], env=self._environment, check=True, timeout=300)
        with subprocess.Popen(receive, env=self._environment) as receiver:
            try:
                yield
            finally:
                receiver.send_signal(signal.SIGINT)

    def take_backup(self) -> None:
        command = [*self._program("pg_basebackup", self.backup), "-c", "fast", "-X", "none", "--no-sync"]
        subprocess.run(command, env=self._environment, check=True, timeout=300)

    def mark(self, name: str) -> None:
        """Name this moment, and wait until the log up to it is archived."""
        with connect(self.port, self.password, "wms2") as server:
            found = server.execute("SELECT pg_walfile_name(pg_create_restore_point(%s))", [name]).fetchone()
            server.execute("SELECT pg_switch_wal()")
        assert found is not None
        segment = self.archive / str(found[0])
        until(segment.exists, why=f"{segment.name} was not archived")

    def restore(self, stack: Stack, *, to: str) -> None:
        """Replace the cluster by the backup, recovered to the named moment, and start every process again."""
        with (self.backup / "postgresql.auto.conf").open("a") as settings:
            settings.write(
                f"restore_command = 'cp {self.archive}/%f %p'\n"
                f"recovery_target_name = '{to}'\nrecovery_target_action = 'promote'\n"
            )
        (self.backup / "recovery.signal").touch()
        self.data.rename(self.lost)
        self.backup.rename(self.data)
        for service in ("postgres", "worker-core", "worker-io", "beat", "web"):
            kill(stack, service)
        shutil.rmtree(self.lost)

    def _program(self, name: str, directory: Path) -> list[str]:
        program = binaries_for(self.data) / name
        return [str(program), "-h", "127.0.0.1", "-p", str(self.port), "-U", "wms2", "-D", str(directory)]

    @property
    def _environment(self) -> dict[str, str]:
        return {**os.environ, "PGPASSWORD": self.password}


def test_after_a_restore_the_requests_end_and_nothing_is_done_twice(stack: Stack, suffix: str) -> None:
    cluster = Cluster(stack)
    with cluster.archiving():
        cluster.take_backup()
        _, generated, urgent = stack.seed(suffix)
        names = [stack.post("requests", document)["request_name"] for document in (generated, urgent)]
        cluster.mark("after_submission")
        for name in names:
            stack.wait_for(name, "completed")
        before = {name: outputs_of(name) for name in names}
    cluster.restore(stack, to="after_submission")
    for name in names:
        done = stack.wait_for(name, "completed")
        assert done["progress"]["events_done"] == done["progress"]["events_total"] > 0
        assert outputs_of(name) == before[name]
        for dag in DAG.objects.filter(workflow__request_name=name):
            assert dag.events.filter(event_type="adopted").exists(), "it was found again"
            assert len(clusters(dag.token)) == 1


def outputs_of(name: str) -> Counter[tuple[str, str]]:
    """Return the dataset and name of each file of the request that DBS knows."""
    blocks = OutputBlock.objects.filter(dataset__workflow__request_name=name)
    datasets = {block.dataset.dataset_name for block in blocks.select_related("dataset")}
    return Counter((dataset, file.lfn) for dataset in datasets for file in dbs().files(dataset))
