"""`python -m lab.kubernetes`: write deploy/kubernetes/wms2.yaml from docker-compose.yml.

Commands, variables, limits and checks of the Compose services become Deployments, a Job and Services.
Variables with names of secrets come from the Secret `wms2`, only in the processes that need them; the others
are the ConfigMap `wms2`. PostgreSQL, Redis and the proxy are the cluster's own.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parents[1]
COMPOSE = ROOT / "docker-compose.yml"
TARGET = ROOT / "deploy" / "kubernetes" / "wms2.yaml"
HEADER = "# Written by `python -m lab.kubernetes` from docker-compose.yml. Patch it by kustomize.\n"
SUBMIT_ROOT = "/srv/wms2-submit"  # the schedd sees it under the same path
ACCOUNT = 10001  # of the image
LEFT_OUT = frozenset({"proxy", "postgres", "redis", "roles", "beat-b"})
REPLICAS = {"web": 2, "streams": 2, "beat-a": 2}  # of two Beats one leads
PORTS = {"web": 8000, "streams": 8001, "flower": 5555}
READY = {"web": "/api/v1/readyz", "streams": "/streams/livez", "flower": "/healthcheck"}
ALIVE = READY | {"web": "/api/v1/livez"}
CPU = {"worker-planning": "2"}  # cores at most; others 1
SECRET = re.compile(r"SECRET|PASSWORD|AUTH$|KEY$|TOKEN|AMQP_URL|STOMP_URL")
# The migration is awaited with the variables that every process has, so that it needs no further secrets.
AWAITING = ("SECRET_KEY", "WMS2_AUDIT_KEY", "DATABASE_URL", "REDIS_URL")
AWAIT = "until python manage.py migrate --check --skip-checks > /dev/null; do sleep 5; done"
_VARIABLE = re.compile(r"\$\{(\w+)(?::[?-]([^}]*))?\}")


def main() -> None:
    """Write the manifests."""
    TARGET.parent.mkdir(exist_ok=True)
    TARGET.write_text(render(yaml.safe_load(COMPOSE.read_text())))


def render(compose: dict[str, Any]) -> str:
    """Return the manifests of all processes as YAML documents."""
    services = {name: one for name, one in compose["services"].items() if name not in LEFT_OUT}
    documents = [_service_account(), _claim()]
    for name, service in services.items():
        made = _job(name, service) if name == "migrate" else _deployment(name, service)
        documents.append(made)
        if name in PORTS:
            documents.append(_service(name))
    yaml.SafeDumper.ignore_aliases = lambda *_: True  # type: ignore[method-assign]
    texts = (yaml.safe_dump(one, sort_keys=False, width=120, default_flow_style=None) for one in documents)
    return HEADER + "---\n".join(texts)


def variables(compose: dict[str, Any]) -> tuple[dict[str, str], set[str]]:
    """Return the variables of the ConfigMap with their defaults, and the names in the Secret."""
    settings: dict[str, str] = {}
    secrets: set[str] = set()
    for name, service in compose["services"].items():
        if name in LEFT_OUT:
            continue
        for value in service.get("environment", {}).values():
            for found in _VARIABLE.finditer(str(value)):
                if SECRET.search(found[1]):
                    secrets.add(found[1])
                else:
                    default = found[2] if found[0].startswith(f"${{{found[1]}:-") else ""
                    settings[found[1]] = default or ""
    return settings | {"WMS2_SUBMIT_ROOT": SUBMIT_ROOT}, secrets


def _deployment(name: str, service: dict[str, Any]) -> dict[str, Any]:
    shown = "beat" if name == "beat-a" else name
    spec = _pod(shown, service)
    spec["initContainers"] = [_awaiting(service, spec["containers"][0])]
    spec["terminationGracePeriodSeconds"] = _seconds(service.get("stop_grace_period", "30s"))
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": shown, "labels": _labels(shown)},
        "spec": {
            "replicas": 0 if "profiles" in service else REPLICAS.get(name, 1),
            "selector": {"matchLabels": _labels(shown)},
            "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}},
            "template": {"metadata": {"labels": _labels(shown)}, "spec": spec},
        },
    }


def _job(name: str, service: dict[str, Any]) -> dict[str, Any]:
    spec = _pod(name, service) | {"restartPolicy": "OnFailure"}
    del spec["containers"][0]["envFrom"]  # a change of settings must not change the Job, which is immutable
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "labels": _labels(name)},
        "spec": {
            "backoffLimit": 4,
            "ttlSecondsAfterFinished": 86400,
            "template": {"metadata": {"labels": _labels(name)}, "spec": spec},
        },
    }


def _pod(name: str, service: dict[str, Any]) -> dict[str, Any]:
    mounts = dict(_mounts(service))
    container: dict[str, Any] = {
        "name": name,
        "image": "wms2",  # set by kustomization.yaml
        "command": [word.replace("$$", "$") for word in service["command"]],
        "env": list(_environment(service.get("environment", {}))),
        "envFrom": [{"configMapRef": {"name": "wms2"}}],
        "resources": _resources(name, service),
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
        "volumeMounts": [
            {"name": "tmp", "mountPath": "/tmp"},  # noqa: S108
            *({"name": volume, **mount} for volume, (mount, _) in mounts.items()),
        ],
    }
    if name in PORTS:
        container["ports"] = [{"name": "http", "containerPort": PORTS[name]}]
    container |= _probes(name, service)
    return {
        "serviceAccountName": "wms2",
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,  # else FLOWER_PORT would be an address
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": ACCOUNT,
            "runAsGroup": ACCOUNT,
            "fsGroup": ACCOUNT,
            "fsGroupChangePolicy": "OnRootMismatch",
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "containers": [container],
        "volumes": [
            {"name": "tmp", "emptyDir": {"medium": "Memory", "sizeLimit": "256Mi"}},
            *({"name": volume, **source} for volume, (_, source) in mounts.items()),
        ],
    }


def _awaiting(service: dict[str, Any], container: dict[str, Any]) -> dict[str, Any]:
    """Return a container that ends when the database has the schema of this image."""
    own = {name: value for name, value in service["environment"].items() if name in AWAITING}
    return {
        "name": "migrated",
        "image": container["image"],
        "command": ["sh", "-c", AWAIT],
        "env": list(_environment(own)),
        "resources": container["resources"],
        "securityContext": container["securityContext"],
        "volumeMounts": container["volumeMounts"][:1],
    }


def _mounts(service: dict[str, Any]) -> Iterator[tuple[str, tuple[dict[str, Any], dict[str, Any]]]]:
    """Yield name, mount and source of the volumes that Compose binds from the host."""
    bound = " ".join(str(volume) for volume in service.get("volumes", ()))
    for name, path in (("condor", "/etc/condor"), ("credentials", "/etc/wms2/credentials")):
        if f":{path}:ro" in bound:
            secret = {"secretName": f"wms2-{name}", "defaultMode": 0o440}
            yield name, ({"mountPath": path, "readOnly": True}, {"secret": secret})
    if "WMS2_SUBMIT_ROOT" in bound:
        claim = {"persistentVolumeClaim": {"claimName": "wms2-submit"}}
        yield "submit", ({"mountPath": SUBMIT_ROOT}, claim)


def _environment(environment: dict[str, str]) -> Iterator[dict[str, Any]]:
    """Yield secrets and composed variables; one that is composed follows its parts, as `$(NAME)` demands."""
    yielded: set[str] = set()
    for name, value in environment.items():
        whole = _VARIABLE.fullmatch(str(value))
        if whole and whole[1] == name:
            if name not in yielded and SECRET.search(name):
                yield _reference(name, optional=":-" in whole[0])
            yielded.add(name)
            continue
        for used in _VARIABLE.finditer(str(value)):
            if used[1] not in yielded and used[1] != name:
                yield _reference(used[1], optional=False)
                yielded.add(used[1])
        # a variable that extends its own value reads it through a second variable
        yield from _composed(name, str(value))


def _composed(name: str, value: str) -> Iterator[dict[str, Any]]:
    own = f"GIVEN_{name}"
    if any(found[1] == name for found in _VARIABLE.finditer(value)):
        yield _reference(name, optional=False) | {"name": own}
    text = _VARIABLE.sub(lambda found: f"$({own if found[1] == name else found[1]})", value)
    yield {"name": name, "value": text.replace("$$", "$")}


def _reference(name: str, *, optional: bool) -> dict[str, Any]:
    kind = "secretKeyRef" if SECRET.search(name) else "configMapKeyRef"
    key: dict[str, Any] = {"name": "wms2", "key": name}
    return {"name": name, "valueFrom": {kind: key | ({"optional": True} if optional else {})}}


def _resources(name: str, service: dict[str, Any]) -> dict[str, Any]:
    memory = f"{str(service['mem_limit']).upper().rstrip('B')}i"
    cpu = CPU.get(name, "1")
    return {"requests": {"cpu": "100m", "memory": "256Mi"}, "limits": {"cpu": cpu, "memory": memory}}


def _probes(name: str, service: dict[str, Any]) -> dict[str, Any]:
    check = service.get("healthcheck")
    if check is None:
        return {}
    times = {
        "periodSeconds": _seconds(check["interval"]),
        "timeoutSeconds": _seconds(check["timeout"]),
    }
    if name in PORTS:
        return {
            "readinessProbe": {"httpGet": _get(name, READY[name]), **times},
            "livenessProbe": {"httpGet": _get(name, ALIVE[name]), **times, "failureThreshold": 4},
        }
    start = _seconds(check.get("start_period", "0s"))
    words = check["test"]
    command = ["sh", "-c", words[1]] if words[0] == "CMD-SHELL" else words[1:]
    command = [word.replace("$$", "$") for word in command]
    probe = {"exec": {"command": command}, **times, "initialDelaySeconds": start, "failureThreshold": 4}
    return {"livenessProbe": probe}


def _get(name: str, path: str) -> dict[str, Any]:
    """Return an HTTP probe with a host that WMS2_ALLOWED_HOSTS always has."""
    return {"path": path, "port": "http", "httpHeaders": [{"name": "Host", "value": "127.0.0.1"}]}


def _seconds(text: str) -> int:
    return int(str(text).removesuffix("s"))


def _labels(name: str) -> dict[str, str]:
    return {"app.kubernetes.io/name": "wms2", "app.kubernetes.io/component": name}


def _service(name: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": name, "labels": _labels(name)},
        "spec": {
            "selector": _labels(name),
            "ports": [{"name": "http", "port": PORTS[name], "targetPort": "http"}],
        },
    }


def _service_account() -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": {"name": "wms2"},
        "automountServiceAccountToken": False,
    }


def _claim() -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "wms2-submit"},
        "spec": {"accessModes": ["ReadWriteMany"], "resources": {"requests": {"storage": "200Gi"}}},
    }


if __name__ == "__main__":
    main()
