"""Record of a DAG's schedd in its directory, written before the DAG is sent there.

The row has the same record. After the database was restored from a backup, only the directory may have it.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from dags_app.models import DAG
from sandbox.atomic import replacing
from wms2_project.errors import PermanentError


@dataclass(frozen=True, slots=True)
class Placement:
    """The schedd a DAG may have been sent to, and since when (epoch)."""

    schedd_name: str
    at: float


def write(dag: DAG, *, schedd_name: str, now: datetime) -> None:
    with replacing(_path(dag)) as file:
        file.write(json.dumps({"schedd": schedd_name, "at": now.timestamp()}).encode())


def read(dag: DAG) -> Placement | None:
    """Return the record; None if the DAG was never sent. Raise PermanentError if it is unreadable."""
    path = _path(dag)
    try:
        found = json.loads(path.read_bytes())
        return Placement(schedd_name=str(found["schedd"]), at=float(found["at"]))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise PermanentError(
            f"{path} is unreadable, so that it is unknown where {dag.token} was sent: {error}",
            cure="Search the schedds for the batch name, then correct or remove the file",
        ) from error


def _path(dag: DAG) -> Path:
    return Path(dag.submit_dir, f"placed-{dag.pk}.json")
