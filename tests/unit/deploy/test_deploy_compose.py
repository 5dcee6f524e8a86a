"""The production shape: what docker-compose.yml and the Dockerfile promise."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from django.conf import settings

ROOT = Path(__file__).resolve().parents[3]
COMPOSE = ROOT / "docker-compose.yml"
WORKERS = {"worker-lifecycle", "worker-planning", "worker-condor", "worker-outputs"}
BEATS = {"beat-a", "beat-b"}
LONG_RUNNING = {"web", "flower", *WORKERS, *BEATS}
SECRET = re.compile(r"SECRET|PASSWORD|AUTH$|_URL$|TOKEN")


@pytest.fixture(scope="module")
def services() -> dict[str, dict[str, Any]]:
    return dict(yaml.safe_load(COMPOSE.read_text())["services"])


def queues_of(service: dict[str, Any]) -> set[str]:
    command = service["command"]
    return set(command[command.index("-Q") + 1].split(","))


def test_compose_has_every_part_of_the_system(services: dict[str, dict[str, Any]]) -> None:
    assert set(services) == {"postgres", "redis", "migrate", *LONG_RUNNING}


def test_every_application_service_runs_the_same_image(services: dict[str, dict[str, Any]]) -> None:
    images = {services[name]["image"] for name in (LONG_RUNNING | {"migrate"})}

    assert len(images) == 1


def test_workers_serve_every_queue_the_settings_name_and_no_other(
    services: dict[str, dict[str, Any]],
) -> None:
    served = set().union(*(queues_of(services[name]) for name in WORKERS))

    assert served == {queue.name for queue in settings.CELERY_TASK_QUEUES}


def test_two_beats_run_under_the_leader_scheduler(services: dict[str, dict[str, Any]]) -> None:
    for name in BEATS:
        command = services[name]["command"]
        assert command[command.index("-S") + 1] == "wms2_project.beat:LeaderScheduler"


@pytest.mark.parametrize(
    "module",
    ["wms2_project.wsgi", "wms2_project.celery", "wms2_project.beat", "wms2_project.flower", "manage"],
)
def test_commands_name_modules_that_exist(module: str) -> None:
    named = f"{COMPOSE.read_text()}{(ROOT / 'Dockerfile').read_text()}"

    assert module in named
    assert (ROOT / f"{module.replace('.', '/')}.py").is_file()


def test_every_celery_command_names_the_applications_module(services: dict[str, dict[str, Any]]) -> None:
    for name in WORKERS | BEATS:
        assert services[name]["command"][:3] == ["celery", "-A", "wms2_project.celery"], name


def test_flower_is_the_one_that_asks_for_a_password(services: dict[str, dict[str, Any]]) -> None:
    assert services["flower"]["command"][:3] == ["python", "-m", "wms2_project.flower"]


@pytest.mark.parametrize("name", sorted(LONG_RUNNING))
def test_application_waits_for_its_services_and_the_migration(
    name: str, services: dict[str, dict[str, Any]]
) -> None:
    conditions = {needed: how["condition"] for needed, how in services[name]["depends_on"].items()}

    assert conditions == {
        "postgres": "service_healthy",
        "redis": "service_healthy",
        "migrate": "service_completed_successfully",
    }


def test_migration_runs_once_after_the_database_is_healthy(services: dict[str, dict[str, Any]]) -> None:
    migrate = services["migrate"]

    assert migrate["restart"] == "no"
    assert migrate["depends_on"] == {"postgres": {"condition": "service_healthy"}}


def test_everything_with_a_port_or_a_queue_has_a_health_check(services: dict[str, dict[str, Any]]) -> None:
    without = {name for name in set(services) - {"migrate"} - BEATS if "healthcheck" not in services[name]}

    assert without == set()


def test_no_secret_has_a_default(services: dict[str, dict[str, Any]]) -> None:
    for name, service in services.items():
        for variable, value in service.get("environment", {}).items():
            if SECRET.search(variable):
                assert re.search(r"\$\{\w+:\?[^}]+\}", value), f"{name}: {variable}"


def test_ports_are_published_on_loopback_only(services: dict[str, dict[str, Any]]) -> None:
    published = [port for service in services.values() for port in service.get("ports", [])]

    assert published
    assert all(port.startswith("127.0.0.1:") for port in published)


def test_image_runs_as_an_ordinary_user_and_carries_no_secret() -> None:
    lines = (ROOT / "Dockerfile").read_text().splitlines()
    users = [line.split()[1] for line in lines if line.startswith("USER ")]

    assert users == ["wms2"]
    assert not [line for line in lines if re.match(r"(ARG|ENV)\b.*(SECRET|PASSWORD|TOKEN)", line)]


def test_image_installs_only_packages_with_known_hashes() -> None:
    text = (ROOT / "Dockerfile").read_text()

    assert re.findall(r"pip install (.*)", text) == [
        "--no-cache-dir --disable-pip-version-check --require-hashes -r /tmp/requirements.txt"
    ]


def compose_available() -> bool:
    if not (docker := shutil.which("docker")):
        return False
    return subprocess.run([docker, "compose", "version"], capture_output=True).returncode == 0


@pytest.mark.skipif(not compose_available(), reason="docker compose is not installed")
def test_docker_compose_accepts_the_file_once_every_variable_is_set() -> None:
    names = set(re.findall(r"(?<!\$)\$\{(\w+):\?", COMPOSE.read_text()))
    values = dict.fromkeys(names, "/x")

    done = subprocess.run(
        ["docker", "compose", "-f", COMPOSE, "config", "--quiet"],
        env={"PATH": "/usr/local/bin:/usr/bin:/bin", **values},
        capture_output=True,
        text=True,
    )

    assert done.returncode == 0, done.stderr
