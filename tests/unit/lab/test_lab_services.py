"""Commands and settings of the services."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest
from django.conf import settings

from lab.errors import LabError
from lab.paths import Layout
from lab.ports import PortBook
from lab.service import Service
from lab.services import Ground, application, condor, grid, postgres
from lab.stack import STOP_ORDER, wanted_services


@pytest.fixture
def ground(layout: Layout) -> Ground:
    return Ground(layout=layout, ports=PortBook(layout.data / "ports.json"), sockets=layout.run)


@pytest.fixture
def addresses() -> application.Addresses:
    return application.Addresses(
        web="127.0.0.1:1", streams="127.0.0.1:4", flower="127.0.0.1:2", traces="127.0.0.1:3"
    )


@pytest.fixture
def parts(ground: Ground, addresses: application.Addresses) -> dict[str, Service]:
    env = application.application_settings(ground.layout, addresses)
    return {service.name: service for service in application.build(ground, addresses, env)}


def release(tmp_path: Path, version: str) -> Path:
    for name, script in {
        "bin/condor_version": f"#!/bin/sh\necho '$CondorVersion: {version} 2026-01-01 $'",
        "libexec/condor/condor_shared_port": "",
    }.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(script)
        path.chmod(0o755)
    return tmp_path


def render(release_dir: Path, sites: list[str]) -> str:
    return condor.render_config(release_dir, Path("/p"), Path("/s"), "wms2-x", sites, owner="ana")


def test_workers_serve_every_queue_of_the_settings() -> None:
    served = {queue for queues in application.WORKERS.values() for queue in queues.split(",")}

    assert served == {queue.name for queue in settings.CELERY_TASK_QUEUES}


def test_every_service_has_its_place_in_the_stop_order(parts: dict[str, Service]) -> None:
    stopped = [name for names in STOP_ORDER for name in names]

    grid_services = [grid.ISSUER, "storage-*"]
    others = ["condor", "cms_world", "redis", "postgres", "epmd", "broker", "intake"]
    assert sorted(stopped) == sorted([*parts, *grid_services, *others])


def test_stopping_keeps_to_the_order_that_loses_nothing() -> None:
    place = {name: number for number, names in enumerate(STOP_ORDER) for name in names}

    assert place["beat"] <= place["worker-core"] < place["condor"] < place["redis"] < place["postgres"]
    assert place["condor"] < place[grid.ISSUER]  # jobs use it to the end


def test_secrets_reach_the_application_through_its_environment_only(
    parts: dict[str, Service], ground: Ground
) -> None:
    secrets = [path.read_text() for path in (ground.layout.operator_password, ground.layout.operator_token)]

    for service in parts.values():
        assert not any(secret in " ".join(service.argv) for secret in secrets), service.name
    assert parts["flower"].env["FLOWER_BASIC_AUTH"] == f"operator:{secrets[0]}"


def test_no_process_of_the_stack_gets_the_password_of_the_tables_owner(
    ground: Ground, addresses: application.Addresses
) -> None:
    env = application.application_settings(ground.layout, addresses)
    env |= {
        "DATABASE_URL": "postgres://wms2_app:a@h/wms2",
        postgres.MIGRATE_URL: "postgres://o:secret@h/wms2",
    }

    parts = application.build(ground, addresses, env)

    assert [part.name for part in parts if "secret@" in str(part.env)] == []


@pytest.mark.parametrize(
    ("owner", "commands"), [("wms2_owner", ["migrate", "database_access"]), ("wms2_app", ["migrate"])]
)
def test_rights_are_granted_after_a_migration_by_another_role(owner: str, commands: list[str]) -> None:
    settings = {
        "DATABASE_URL": "postgres://wms2_app:a@h/wms2",
        postgres.MIGRATE_URL: f"postgres://{owner}:b@h/wms2",
    }

    assert [command[0] for command in application.migrate_commands(settings)] == commands


def test_flower_and_streams_listen_on_loopback(parts: dict[str, Service]) -> None:
    assert "--address=127.0.0.1" in parts["flower"].argv
    assert parts["streams"].argv[parts["streams"].argv.index("--host") + 1] == "127.0.0.1"


def test_a_port_that_is_no_number_is_refused(ground: Ground, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WMS2_PORT", "http")

    with pytest.raises(LabError, match="WMS2_PORT='http'"):
        application.pick_addresses(ground.ports)


def test_an_unknown_service_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WMS2_SERVICES", "postgres, mysql")

    with pytest.raises(LabError, match="mysql"):
        wanted_services()


def test_pool_configuration_has_no_hole_and_a_slot_per_site(tmp_path: Path) -> None:
    sites = ["T1_US_FNAL", "T2_CH_CERN"]

    text = render(release(tmp_path, "23.9.6"), sites)

    assert not re.search(r"@[A-Z_]+@", text)
    assert "NUM_SLOTS_TYPE_2 = 1" in text
    assert 'SLOT_TYPE_2_GLIDEIN_CMSSite = "T2_CH_CERN"' in text
    assert "NUM_CPUS = 8" in text
    assert "MEMORY   = 16384" in text
    assert "NETWORK_INTERFACE = 127.0.0.1" in text


def test_tokens_of_jobs_travel_encrypted(tmp_path: Path) -> None:
    text = render(release(tmp_path, "23.9.6"), ["T1_US_FNAL"])

    assert "SEC_CREDENTIAL_DIRECTORY_OAUTH = $(LOCAL_DIR)/oauth" in text
    assert "SEC_DEFAULT_ENCRYPTION = REQUIRED" in text


@pytest.mark.parametrize("schedds", [1, 2])
def test_a_pool_has_a_spare_schedd_with_a_queue_of_its_own_when_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, schedds: int
) -> None:
    monkeypatch.setenv("WMS2_POOL_SCHEDDS", str(schedds))
    text = render(release(tmp_path, "23.9.6"), ["T1_US_FNAL"])
    assert ("SPARE.SCHEDD_NAME = wms2-x-spare@pool.local" in text) is (schedds == 2)
    assert ("SPARE.SPOOL = $(LOCAL_DIR)/spool-spare" in text) is (schedds == 2)


@pytest.mark.parametrize(("version", "relaxed"), [("23.9.6", True), ("25.0.1", False)])
def test_channel_binding_is_relaxed_for_old_daemons_only(tmp_path: Path, version: str, relaxed: bool) -> None:
    assert bool(condor.channel_binding(release(tmp_path, version))) is relaxed


def test_a_release_without_daemons_is_refused(tmp_path: Path) -> None:
    with pytest.raises(LabError, match="no HTCondor daemons"):
        condor.find_libexec(tmp_path)


def test_addresses_of_a_dead_pool_are_removed(tmp_path: Path) -> None:
    kept = tmp_path / "spool" / "job_queue.log"
    for path in (tmp_path / "log" / ".collector_address", tmp_path / "spool" / ".schedd_address", kept):
        path.parent.mkdir(exist_ok=True)
        path.write_text("x")

    condor.forget_addresses(tmp_path)

    assert [path for path in tmp_path.rglob("*") if path.is_file()] == [kept]


@pytest.mark.parametrize(
    "content",
    ["", "garbage", "999999999\n", f"{os.getpid()}\n/elsewhere\n"],
    ids=["empty", "garbage", "no process", "another process"],
)
def test_a_pid_file_without_its_postmaster_is_dropped(tmp_path: Path, content: str) -> None:
    (tmp_path / "postmaster.pid").write_text(content)

    postgres.drop_stale_pid(tmp_path)

    assert not (tmp_path / "postmaster.pid").exists()


def test_the_pid_file_of_a_postmaster_that_sits_in_the_directory_stays(tmp_path: Path) -> None:
    pid_file = tmp_path / "postmaster.pid"
    with subprocess.Popen(["sleep", "1000"], cwd=tmp_path) as postmaster:
        pid_file.write_text(f"{postmaster.pid}\n")

        postgres.drop_stale_pid(tmp_path)

        assert pid_file.exists()
        postmaster.kill()


def test_access_is_set_up_with_files_not_with_words(layout: Layout) -> None:
    access = next(
        command for command in application.setup_commands(layout, {}) if command[0] == "ensure_access"
    )

    assert access[access.index("--password-file") + 1] == str(layout.operator_password)
    assert access[access.index("--token-file") + 1] == str(layout.operator_token)
