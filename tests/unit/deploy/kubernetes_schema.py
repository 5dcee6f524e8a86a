"""A strict validation of the part of the Kubernetes API that the manifests use: unknown fields are errors.

A schema is a type, a pattern, a set of values, a list of one schema for every item, a mapping `{"*": …}` for
every value, or a mapping of fields, where a name with `!` is required.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

NAME = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
QUANTITY = re.compile(r"[0-9]+(\.[0-9]+)?(m|Ki|Mi|Gi|Ti|k|M|G|T)?")
VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
PATH = re.compile(r"/[^:]*")
LABELS = {"*": re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?")}
METADATA = {"name!": NAME, "labels": LABELS}
KEY = {"name!": NAME, "key!": re.compile(r"[-._A-Za-z0-9]+"), "optional": bool}
RESOURCES = {"requests": {"*": QUANTITY}, "limits": {"*": QUANTITY}}
PROBE = {
    "httpGet": {"path!": PATH, "port!": str, "httpHeaders": [{"name!": str, "value!": str}]},
    "exec": {"command!": [str]},
    "periodSeconds": int, "timeoutSeconds": int, "initialDelaySeconds": int, "failureThreshold": int,
}  # fmt: skip
CONTAINER = {
    "name!": NAME,
    "image!": str,
    "command": [str],
    "env": [
        {"name!": VARIABLE, "value": str, "valueFrom": {"secretKeyRef": KEY, "configMapKeyRef": KEY}},
    ],
    "envFrom": [{"configMapRef": {"name!": NAME, "optional": bool}}],
    "resources!": RESOURCES,
    "securityContext!": {
        "allowPrivilegeEscalation!": bool,
        "readOnlyRootFilesystem!": bool,
        "capabilities!": {"drop!": [str]},
    },
    "volumeMounts": [{"name!": NAME, "mountPath!": PATH, "readOnly": bool}],
    "ports": [{"name!": NAME, "containerPort!": int}],
    "readinessProbe": PROBE,
    "livenessProbe": PROBE,
}
POD = {
    "serviceAccountName": NAME,
    "automountServiceAccountToken": bool,
    "enableServiceLinks": bool,
    "securityContext!": {
        "runAsNonRoot!": bool, "runAsUser!": int, "runAsGroup": int, "fsGroup": int,
        "fsGroupChangePolicy": {"Always", "OnRootMismatch"},
        "seccompProfile": {"type!": {"RuntimeDefault", "Localhost", "Unconfined"}},
    },
    "initContainers": [CONTAINER],
    "containers!": [CONTAINER],
    "volumes": [
        {
            "name!": NAME,
            "emptyDir": {"medium": {"", "Memory"}, "sizeLimit": QUANTITY},
            "secret": {"secretName!": NAME, "defaultMode": int},
            "persistentVolumeClaim": {"claimName!": NAME},
        }
    ],
    "restartPolicy": {"Always", "OnFailure", "Never"},
    "terminationGracePeriodSeconds": int,
}  # fmt: skip
TEMPLATE = {"metadata!": {"labels!": LABELS}, "spec!": POD}
ROLLING = {"maxSurge": int, "maxUnavailable": int}
SPECS: dict[tuple[str, str], dict[str, Any]] = {
    ("v1", "ServiceAccount"): {"automountServiceAccountToken": bool},
    ("v1", "PersistentVolumeClaim"): {
        "spec!": {
            "accessModes!": [{"ReadWriteOnce", "ReadOnlyMany", "ReadWriteMany"}],
            "resources!": RESOURCES,
        }
    },
    ("v1", "Service"): {
        "spec!": {"selector!": LABELS, "ports!": [{"name": NAME, "port!": int, "targetPort": str}]}
    },
    ("apps/v1", "Deployment"): {
        "spec!": {
            "replicas": int,
            "selector!": {"matchLabels!": LABELS},
            "strategy": {"type!": {"RollingUpdate", "Recreate"}, "rollingUpdate": ROLLING},
            "template!": TEMPLATE,
        }
    },
    ("batch/v1", "Job"): {
        "spec!": {"backoffLimit": int, "ttlSecondsAfterFinished": int, "template!": TEMPLATE}
    },
}


def find_errors(document: dict[str, Any]) -> list[str]:
    """Return one sentence per field of the document that the API would refuse."""
    kind = (str(document.get("apiVersion")), str(document.get("kind")))
    if kind not in SPECS:
        return [f"{kind} is not known"]
    whole = {"apiVersion!": str, "kind!": str, "metadata!": METADATA} | SPECS[kind]
    return list(_check(document, whole, f"{kind[1]} {document.get('metadata', {}).get('name')}"))


def _check(value: Any, schema: Any, where: str) -> Iterator[str]:
    if isinstance(schema, dict):
        yield from _check_mapping(value, schema, where)
    elif isinstance(schema, list):
        if not isinstance(value, list):
            yield f"{where}: a list is needed"
            return
        for number, item in enumerate(value):
            yield from _check(item, schema[0], f"{where}[{number}]")
    elif isinstance(schema, set):
        if value not in schema:
            yield f"{where}: {value!r} is none of {sorted(schema)}"
    elif isinstance(schema, re.Pattern):
        if not isinstance(value, str) or not schema.fullmatch(value):
            yield f"{where}: {value!r} does not match {schema.pattern}"
    elif type(value) is not schema:  # a bool is no int
        yield f"{where}: {value!r} is no {schema.__name__}"


def _check_mapping(value: Any, schema: dict[str, Any], where: str) -> Iterator[str]:
    if not isinstance(value, dict):
        yield f"{where}: a mapping is needed"
        return
    if "*" in schema:
        for name, item in value.items():
            yield from _check(item, schema["*"], f"{where}.{name}")
        return
    known = {name.rstrip("!"): one for name, one in schema.items()}
    for name in value.keys() - known.keys():
        yield f"{where}: {name} is not known"
    for name in (one[:-1] for one in schema if one.endswith("!")):
        if name not in value:
            yield f"{where}: {name} is missing"
    for name in value.keys() & known.keys():
        yield from _check(value[name], known[name], f"{where}.{name}")
