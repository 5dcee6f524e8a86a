"""The Kubernetes manifests: the settings of Compose, in fields of the API."""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from lab import kubernetes
from tests.unit.deploy.kubernetes_schema import find_errors

ROOT = Path(__file__).resolve().parents[3]
COMPOSE = yaml.safe_load((ROOT / "docker-compose.yml").read_text())
FOLDER = ROOT / "deploy" / "kubernetes"
DOCUMENTS: list[dict[str, Any]] = list(yaml.safe_load_all((FOLDER / "wms2.yaml").read_text()))
NAMED = {(one["kind"], one["metadata"]["name"]): one for one in DOCUMENTS}
PODS = {
    name: one["spec"]["template"]["spec"]
    for (kind, name), one in NAMED.items()
    if kind in ("Deployment", "Job")
}
CONTAINERS = {name: pod["containers"][0] for name, pod in PODS.items()}
SERVICES = {
    "beat" if name == "beat-a" else name: service
    for name, service in COMPOSE["services"].items()
    if name not in kubernetes.LEFT_OUT
}


def settings() -> dict[str, str]:
    lines = (FOLDER / "settings.properties").read_text().splitlines()
    pairs = (line.partition("=") for line in lines if line and not line.startswith("#"))
    return {name: value for name, _, value in pairs}


def test_the_manifests_are_those_of_the_compose_file() -> None:
    written = (FOLDER / "wms2.yaml").read_text()
    assert written == kubernetes.render(COMPOSE), "run python -m lab.kubernetes"
    assert PODS.keys() == SERVICES.keys()


def test_every_field_is_one_of_the_api() -> None:
    assert [error for one in DOCUMENTS for error in find_errors(one)] == []
    assert len(NAMED) == len(DOCUMENTS)


DAMAGES: dict[str, tuple[Callable[[dict[str, Any]], Any], str]] = {
    "an unknown field": (lambda spec: spec.update(replica=1), "replica is not known"),
    "a missing field": (lambda spec: spec.pop("selector"), "selector is missing"),
    "a wrong type": (lambda spec: spec.update(replicas="2"), "'2' is no int"),
    "a wrong value": (lambda spec: spec["strategy"].update(type="Rolling"), "is none of"),
    "a wrong quantity": (
        lambda spec: spec["template"]["spec"]["containers"][0]["resources"]["limits"].update(memory="1 GB"),
        "limits.memory: '1 GB' does not match",
    ),
}


@pytest.mark.parametrize(("damage", "message"), DAMAGES.values(), ids=DAMAGES)
def test_the_validation_finds(damage: Callable[[dict[str, Any]], Any], message: str) -> None:
    document = copy.deepcopy(NAMED["Deployment", "web"])
    damage(document["spec"])
    assert [error for error in find_errors(document) if message in error] != []


def test_selectors_find_their_pods() -> None:
    for (kind, name), one in NAMED.items():
        if kind == "Deployment":
            assert one["spec"]["selector"]["matchLabels"] == one["spec"]["template"]["metadata"]["labels"]
        if kind == "Service":
            pod = NAMED["Deployment", name]["spec"]["template"]
            assert one["spec"]["selector"].items() <= pod["metadata"]["labels"].items()
            ports = {port["name"]: port["containerPort"] for port in CONTAINERS[name]["ports"]}
            assert [ports[port["targetPort"]] for port in one["spec"]["ports"]] == [
                port["port"] for port in one["spec"]["ports"]
            ]


def everything(pod: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield from pod.get("initContainers", ())
    yield from pod["containers"]


@pytest.mark.parametrize("name", PODS)
def test_every_container_is_closed_limited_and_finds_its_volumes(name: str) -> None:
    pod = PODS[name]
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["runAsUser"] == 10001
    assert f"--uid {pod['securityContext']['runAsUser']}" in (ROOT / "Dockerfile").read_text()
    assert pod["automountServiceAccountToken"] is False
    volumes = {volume["name"] for volume in pod["volumes"]}
    for container in everything(pod):
        security = container["securityContext"]
        assert security["readOnlyRootFilesystem"] is True
        assert security["allowPrivilegeEscalation"] is False
        assert security["capabilities"]["drop"] == ["ALL"]
        assert container["resources"]["limits"].keys() == {"cpu", "memory"}
        assert {mount["name"] for mount in container["volumeMounts"]} <= volumes


@pytest.mark.parametrize("name", PODS)
def test_each_process_has_the_variables_of_compose_and_no_other_secret(name: str) -> None:
    values = SERVICES[name].get("environment", {})
    named = {found for value in values.values() for found in re.findall(r"\$\{(\w+)", str(value))}
    given = {one["name"]: one for one in CONTAINERS[name]["env"]}
    whole = settings() if "envFrom" in CONTAINERS[name] else {}
    assert values.keys() <= given.keys() | whole.keys()
    secrets = {
        one["valueFrom"]["secretKeyRef"]["key"] for one in given.values() if "secretKeyRef" in str(one)
    }
    assert secrets == {one for one in named if kubernetes.SECRET.search(one)}


@pytest.mark.parametrize("name", PODS)
def test_composed_variables_follow_their_parts(name: str) -> None:
    for container in everything(PODS[name]):
        before: set[str] = set()
        for one in container["env"]:
            assert set(re.findall(r"\$\((\w+)\)", one.get("value", ""))) <= before, one
            before.add(one["name"])


def test_the_settings_are_those_in_compose() -> None:
    needed, _ = kubernetes.variables(COMPOSE)
    assert needed.keys() == settings().keys()
    referred = {
        one["valueFrom"]["configMapKeyRef"]["key"]
        for pod in PODS.values()
        for container in everything(pod)
        for one in container["env"]
        if "configMapKeyRef" in one.get("valueFrom", {})
    }
    assert referred <= settings().keys()
    mounts = [mount["mountPath"] for one in CONTAINERS.values() for mount in one["volumeMounts"]]
    assert settings()["WMS2_SUBMIT_ROOT"] in mounts


def test_probes_use_a_port_or_run_a_command_of_the_image() -> None:
    probed = {name for name, one in CONTAINERS.items() if "livenessProbe" in one}
    assert probed == PODS.keys() - {"beat", "intake", "migrate"}
    for name in probed:
        probe = CONTAINERS[name]["livenessProbe"]
        port = probe["httpGet"]["port"] if "httpGet" in probe else None
        assert port in {None, *(one["name"] for one in CONTAINERS[name].get("ports", ()))}
        assert probe["timeoutSeconds"] <= probe["periodSeconds"]


def test_processes_wait_for_the_migration_and_two_beats_run() -> None:
    waiting = {name for name, pod in PODS.items() if pod.get("initContainers")}
    assert waiting == PODS.keys() - {"migrate"}
    assert NAMED["Deployment", "beat"]["spec"]["replicas"] == 2


def test_kustomize_names_the_files_and_the_image() -> None:
    found = yaml.safe_load((FOLDER / "kustomization.yaml").read_text())
    assert found["resources"] == ["wms2.yaml"]
    assert [one["envs"] for one in found["configMapGenerator"]] == [["settings.properties"]]
    assert {one["name"] for one in found["images"]} == {
        container["image"] for pod in PODS.values() for container in everything(pod)
    }
