"""docker-compose.yml as Docker reads it: the services with their variables filled in."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parents[2]
_VARIABLE = re.compile(r"\$\$|\$\{(\w+):([?-])([^}]*)\}")


@dataclass(frozen=True, slots=True)
class Service:
    """Settings of a service's container."""

    name: str
    command: list[str]
    environment: dict[str, str]
    volumes: list[tuple[str, str, bool]]  # source, target, read-only
    healthcheck: list[str]


def read_services(variables: Mapping[str, str], addresses: Mapping[str, str]) -> dict[str, Service]:
    """Return the services of the application's image. `addresses` replaces what has another name here."""
    services = yaml.safe_load((ROOT / "docker-compose.yml").read_text())["services"]
    return {
        name: _read(name, _fill(service, variables, addresses))
        for name, service in services.items()
        if service["image"].startswith("wms2:")
    }


def _fill(value: Any, variables: Mapping[str, str], addresses: Mapping[str, str]) -> Any:
    if isinstance(value, dict):
        return {key: _fill(inner, variables, addresses) for key, inner in value.items()}
    if isinstance(value, list):
        return [_fill(inner, variables, addresses) for inner in value]
    if not isinstance(value, str):
        return value
    for name, address in addresses.items():
        value = value.replace(name, address)
    return _VARIABLE.sub(lambda found: _value(found, variables), value)


def _value(found: re.Match[str], variables: Mapping[str, str]) -> str:
    if found[0] == "$$":
        return "$"
    given = variables.get(found[1], "")
    assert given or found[2] == "-", f"docker-compose.yml needs {found[1]}: {found[3]}"
    return given or found[3]


def _read(name: str, service: dict[str, Any]) -> Service:
    volumes = [volume.split(":") for volume in service.get("volumes", [])]
    kind, *check = service.get("healthcheck", {}).get("test", [""])
    return Service(
        name=name,
        command=service["command"],
        environment={key: str(value) for key, value in service["environment"].items()},
        volumes=[(source, target, "ro" in options) for source, target, *options in volumes],
        healthcheck=["sh", "-c", *check] if kind == "CMD-SHELL" else check,
    )
