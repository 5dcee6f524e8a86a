"""The production setup in docker-compose.yml and the Dockerfile."""

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
IGNORED = [
    ".env", ".env.production", "wms2.env", "deploy/wms2.env", "server.key", "tls/server.key", "server.crt",
    "clients.pem", "robot.p12", "operator.password", "operator.token", "django.secret", "x509up_u1000",
    "state/data/operator.token", "wms2.log",
]  # fmt: skip
WORKERS = {"worker-lifecycle", "worker-planning", "worker-condor", "worker-outputs"}
BEATS = {"beat-a", "beat-b"}
INTAKE = "intake"  # it has no port, and waits for missing services instead of ending: /readyz shows it
LONG_RUNNING = {"web", "streams", "flower", INTAKE, *WORKERS, *BEATS}
OF_ONE_USE = {"roles", "migrate"}
SECRET = re.compile(r"SECRET|PASSWORD|AUTH$|_URL$|TOKEN")


@pytest.fixture(scope="module")
def services() -> dict[str, dict[str, Any]]:
    return dict(yaml.safe_load(COMPOSE.read_text())["services"])


def queues_of(service: dict[str, Any]) -> set[str]:
    command = service["command"]
    return set(command[command.index("-Q") + 1].split(","))


def test_compose_has_every_part_of_the_system(services: dict[str, dict[str, Any]]) -> None:
    assert set(services) == {"proxy", "postgres", "redis", *OF_ONE_USE, *LONG_RUNNING}


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
    [
        "wms2_project.wsgi",
        "console.streams.asgi",
        "wms2_project.celery",
        "wms2_project.beat",
        "wms2_project.flower",
        "manage",
    ],
)
def test_commands_name_modules_that_exist(module: str) -> None:
    named = f"{COMPOSE.read_text()}{(ROOT / 'Dockerfile').read_text()}"

    assert module in named
    assert (ROOT / f"{module.replace('.', '/')}.py").is_file()


def test_every_celery_command_names_the_applications_module(services: dict[str, dict[str, Any]]) -> None:
    for name in WORKERS | BEATS:
        assert services[name]["command"][:3] == ["celery", "-A", "wms2_project.celery"], name


def test_flower_requires_a_password(services: dict[str, dict[str, Any]]) -> None:
    assert services["flower"]["command"][:3] == ["python", "-m", "wms2_project.flower"]


@pytest.mark.parametrize("name", sorted(LONG_RUNNING - {"flower"}))
def test_application_waits_for_its_services_and_the_migration(
    name: str, services: dict[str, dict[str, Any]]
) -> None:
    conditions = {needed: how["condition"] for needed, how in services[name]["depends_on"].items()}

    assert conditions == {
        "postgres": "service_healthy",
        "redis": "service_healthy",
        "migrate": "service_completed_successfully",
    }


def test_migration_runs_once_as_the_owner_after_the_roles_are_there(
    services: dict[str, dict[str, Any]],
) -> None:
    roles, migrate = services["roles"], services["migrate"]

    assert (roles["restart"], migrate["restart"]) == ("no", "no")
    assert roles["depends_on"] == {"postgres": {"condition": "service_healthy"}}
    assert migrate["depends_on"] == {"roles": {"condition": "service_completed_successfully"}}
    assert migrate["environment"]["DATABASE_URL"].startswith("postgres://wms2_owner:")
    assert "database_access wms2_app" in migrate["command"][-1]


def test_everything_with_a_port_or_a_queue_has_a_health_check(services: dict[str, dict[str, Any]]) -> None:
    without = {
        name for name in set(services) - OF_ONE_USE - BEATS - {INTAKE} if "healthcheck" not in services[name]
    }

    assert without == set()


def test_no_secret_has_a_default(services: dict[str, dict[str, Any]]) -> None:
    for name, service in services.items():
        for variable, value in service.get("environment", {}).items():
            if SECRET.search(variable) and "unused" not in value:
                assert re.search(r"\$\{\w+:\?[^}]+\}", value) or value == f"${{{variable}:-}}", (
                    f"{name}: {variable}"
                )


def secrets_of(service: dict[str, Any]) -> set[str]:
    named = re.findall(r"\$\{(\w+):", " ".join(map(str, service.get("environment", {}).values())))
    return {name for name in named if re.search(r"SECRET|PASSWORD|AUTH$|KEY$", name)}


def test_each_service_gets_only_the_secrets_it_uses(services: dict[str, dict[str, Any]]) -> None:
    keys, run = {"SECRET_KEY", "WMS2_AUDIT_KEY"}, {"WMS2_APP_PASSWORD", "REDIS_PASSWORD"}
    worker = keys | run | {"WMS2_RUCIO_PASSWORD"}
    assert {name: secrets_of(service) for name, service in services.items()} == {
        "proxy": set(),
        "postgres": {"POSTGRES_PASSWORD"},
        "redis": {"REDIS_PASSWORD"},
        "roles": {"POSTGRES_PASSWORD", "WMS2_OWNER_PASSWORD", "WMS2_APP_PASSWORD"},
        "migrate": keys | {"WMS2_OWNER_PASSWORD"},
        "streams": keys | run,
        "web": worker | {"WMS2_OIDC_CLIENT_SECRET", "WMS2_CALLBACK_SECRET"},
        **dict.fromkeys(WORKERS, worker),
        "worker-outputs": worker | {"WMS2_CALLBACK_SECRET"},
        **dict.fromkeys(BEATS | {INTAKE}, keys | run),
        "flower": {"REDIS_PASSWORD", "FLOWER_BASIC_AUTH", "SECRET_KEY", "WMS2_APP_PASSWORD"},
    }


def test_every_container_is_closed(services: dict[str, dict[str, Any]]) -> None:
    for name, service in services.items():
        assert service["cap_drop"] == ["ALL"], name
        assert "cap_add" not in service, name
        assert service["read_only"] is True, name
        assert service["security_opt"] == ["no-new-privileges:true"], name
        assert re.fullmatch(r"[0-9]+[mg]", service["mem_limit"]), name
        assert service["pids_limit"] > 0, name
        assert not service.get("privileged"), name


def test_only_the_proxy_is_reached_from_outside_the_host(services: dict[str, dict[str, Any]]) -> None:
    published = {name: service["ports"] for name, service in services.items() if "ports" in service}

    assert set(published) == {"proxy", "flower"}
    assert all(port.startswith("127.0.0.1:") for port in published["flower"])


def test_wms2_trusts_the_proxy_and_no_other_address(services: dict[str, dict[str, Any]]) -> None:
    address = services["proxy"]["networks"]["front"]["ipv4_address"]
    meet = {name for name, service in services.items() if "front" in service["networks"]}

    assert services["web"]["environment"]["WMS2_TRUSTED_PROXIES"] == address
    assert meet == {"proxy", "streams", "web"}
    assert services["postgres"]["networks"] == services["redis"]["networks"] == ["back"]


def test_the_web_process_starts_only_when_the_deployment_passes_its_checks(
    services: dict[str, dict[str, Any]],
) -> None:
    assert services["web"]["command"][-1].startswith("python manage.py check --deploy && exec gunicorn ")


def test_the_proxy_waits_for_whole_requests_and_replaces_identity_headers() -> None:
    text = (ROOT / "deploy/nginx/nginx.conf").read_text()

    assert dict(re.findall(r"proxy_set_header (\S+) (\S+);", text)) == {
        "Host": "$http_host",
        "Connection": '""',
        "X-Forwarded-For": "$remote_addr",
        "X-Forwarded-Proto": "https",
        "X-SSL-Client-Verify": "$ssl_client_verify",
        "X-SSL-Client-S-DN": "$ssl_client_s_dn",
    }
    for setting in ("proxy_request_buffering on", "client_header_timeout 10s", "client_body_timeout 10s"):
        assert f"{setting};" in text


@pytest.mark.parametrize("name", IGNORED)
def test_secrets_and_state_reach_neither_the_image_nor_the_repository(name: str) -> None:
    for file in (".dockerignore", ".gitignore"):
        patterns = [line for line in (ROOT / file).read_text().splitlines() if line[:1] not in ("", "#")]
        assert any(is_ignored(name, pattern) for pattern in patterns), f"{file} does not name {name}"


def is_ignored(name: str, pattern: str) -> bool:
    """Return whether the pattern names the file or a directory above it."""
    bare = pattern.removeprefix("**/").strip("/")
    return any(part.match(bare) for part in (Path(name), *Path(name).parents) if str(part) != ".")


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
