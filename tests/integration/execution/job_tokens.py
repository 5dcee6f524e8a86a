"""A running issuer of job tokens, a workflow that needs one, and readers of its token."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from django.utils import timezone

from cms.token_issuer import IssuedToken
from condor.submitfile import token_file_name
from dags_app.adapters import build_token_issuer
from dags_app.models import Workflow
from dags_app.services import credentials
from tests.integration.factories import (
    make_dag,
    make_round,
    make_workflow,
)
from tests.issuing import CLIENT_ID, RunningIssuer, lab_issuer, make_certificates

LIFETIME_SEC = 3600
NOWHERE = "https://localhost:1"


class Current:
    """The issuer that the settings name at each call."""

    def obtain(self, scopes: list[str]) -> IssuedToken:
        return build_token_issuer().obtain(scopes)


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return tmp_path / "oauth"


@pytest.fixture(autouse=True)
def issuer(
    tmp_path: Path, directory: Path, settings: Any, adapt: Callable[..., None]
) -> Iterator[RunningIssuer]:
    """Run a real issuer, with the settings for it."""
    certificates = make_certificates(tmp_path / "certificates")
    with lab_issuer(certificates, tmp_path) as running:
        settings.TOKEN_ISSUER = running.url
        settings.TOKEN_CLIENT_ID = CLIENT_ID
        settings.TOKEN_CLIENT_SECRET_FILE = str(running.secret_file)
        settings.TOKEN_CA_FILE = str(running.ca)
        settings.TOKEN_LIFETIME_SEC = LIFETIME_SEC
        settings.CREDENTIAL_DIR = str(directory)
        settings.BREAKER_FAILURES = 1000  # tests fail on purpose, and share the guard
        adapt(token_issuer=Current())
        yield running


@pytest.fixture
def workflow() -> Workflow:
    """Return a workflow with a DAG in the queue."""
    made = make_workflow()
    make_dag(make_round(made))
    return made


def token_of(directory: Path, workflow: Workflow) -> str:
    return (directory / token_file_name(str(workflow.pk))).read_text().strip()


def claims_of(token: str) -> dict[str, Any]:
    body = token.split(".")[1]
    claims: dict[str, Any] = json.loads(base64.urlsafe_b64decode(body + "=" * (-len(body) % 4)))
    return claims


def later(seconds: float) -> datetime:
    return timezone.now() + timedelta(seconds=seconds)


def renew(now: datetime | None = None) -> None:
    credentials.renew_tokens(now=now or timezone.now(), seconds=60)


def ensure(workflow: Workflow, now: datetime | None = None) -> None:
    credentials.ensure_token(workflow=workflow, now=now or timezone.now())


def files(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir()) if directory.exists() else []
