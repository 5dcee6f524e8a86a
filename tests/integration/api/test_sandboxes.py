"""PUT /api/v1/sandboxes: the files of a payload, kept by their digest, and the requests that name them."""

from __future__ import annotations

import hashlib
import io
import os
import tarfile
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.utils import timezone
from rest_framework.test import APIClient

from dags_app.checks import check_payloads
from dags_app.services.user_sandboxes import path_of, remove_unused_sandboxes
from requests_app.lifecycle.maintenance import clean_storage
from requests_app.models import Request
from tests.integration.factories import DOCUMENT

pytestmark = pytest.mark.django_db
URL = "/api/v1/sandboxes"
KEPT_DAYS = 30


def tarball(name: str = "run", content: bytes = b"#!/bin/sh\n") -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        entry = tarfile.TarInfo(name)
        entry.size = len(content)
        archive.addfile(entry, io.BytesIO(content))
    return buffer.getvalue()


@pytest.fixture(autouse=True)
def _own_submit_root(settings: Any, tmp_path: Path) -> None:
    settings.SUBMIT_ROOT = str(tmp_path)


def upload(client: APIClient, data: bytes) -> Any:
    return client.generic("PUT", URL, data, content_type="application/gzip")


def test_a_tarball_is_kept_by_its_digest(requestor: APIClient) -> None:
    data = tarball()
    answers = [upload(requestor, data), upload(requestor, data)]

    digest = hashlib.sha256(data).hexdigest()
    assert [(one.status_code, one.json()) for one in answers] == [(200, {"sandbox_sha256": digest})] * 2
    assert path_of(digest).read_bytes() == data
    assert len(list(path_of(digest).parent.iterdir())) == 1, "nothing else is left"


@pytest.mark.parametrize(
    ("data", "words"),
    [(b"no tarball", "not a complete tarball"), (b"", "not a complete tarball"), (tarball("../x"), "../x")],
    ids=["other bytes", "nothing", "outside"],
)
def test_an_unusable_tarball_is_refused(requestor: APIClient, data: bytes, words: str) -> None:
    answer = upload(requestor, data)

    assert answer.status_code == 422
    assert words in str(answer.json()["errors"])
    assert not list(path_of("x").parent.glob("*"))


def test_a_large_body_is_refused(requestor: APIClient, settings: Any) -> None:
    settings.SANDBOX_MAX_BYTES = 100
    answer = upload(requestor, tarball(content=os.urandom(1000)))

    assert (answer.status_code, answer.json()["code"]) == (413, "body_too_large")
    assert not list(path_of("x").parent.glob("*"))


def test_a_body_of_another_type_is_refused(requestor: APIClient) -> None:
    assert requestor.put(URL, {"a": 1}, format="json").status_code == 415


def test_a_request_names_an_upload_and_no_other_digest(requestor: APIClient) -> None:
    command = {"payload_config": {"command": ["./run"]}}
    digest = upload(requestor, tarball()).json()["sandbox_sha256"]
    unknown = requestor.post("/api/v1/requests", DOCUMENT | command | {"sandbox_sha256": "0" * 64})
    assert unknown.status_code == 422
    assert "uploaded" in unknown.json()["errors"]["sandbox_sha256"]

    answer = requestor.post("/api/v1/requests", DOCUMENT | command | {"sandbox_sha256": digest})
    assert answer.status_code == 201, answer.json()
    assert Request.objects.get().workflow.payload_config["sandbox_sha256"] == digest


def test_a_sandbox_comes_from_an_allowed_host(requestor: APIClient, settings: Any) -> None:
    settings.SANDBOX_HOSTS = ["files.example.org"]
    named = {"payload_config": {"command": ["./run"]}, "sandbox_sha256": "0" * 64}
    good = requestor.post(
        "/api/v1/requests", DOCUMENT | named | {"sandbox_url": "https://files.example.org/a"}
    )
    bad = requestor.post(
        "/api/v1/requests", DOCUMENT | named | {"sandbox_url": "https://other.example.org/a"}
    )

    assert good.status_code == 201, good.json()
    assert bad.status_code == 422
    assert "other.example.org is not an allowed host" in str(bad.json()["errors"]["sandbox_url"])


def test_unused_tarballs_are_removed_in_the_end(requestor: APIClient, settings: Any) -> None:
    settings.KEEP_COMPLETED_DAYS = KEPT_DAYS
    used = upload(requestor, tarball("used")).json()["sandbox_sha256"]
    unused = upload(requestor, tarball("unused")).json()["sandbox_sha256"]
    command = {"payload_config": {"command": ["./used"]}, "sandbox_sha256": used}
    requestor.post("/api/v1/requests", DOCUMENT | command)
    clean_storage(now=timezone.now())
    assert path_of(unused).exists(), "it may still be named"

    clean_storage(now=timezone.now() + timedelta(days=KEPT_DAYS + 1))
    assert (path_of(used).exists(), path_of(unused).exists()) == (True, False)
    assert remove_unused_sandboxes(used=[], now=timezone.now()) == 0


def test_a_request_without_a_payload_is_refused_with_the_kinds(requestor: APIClient, settings: Any) -> None:
    settings.PAYLOAD_PLUGINS, settings.DEFAULT_PAYLOAD = [], ""
    none = requestor.post("/api/v1/requests", DOCUMENT)
    toy = requestor.post("/api/v1/requests", DOCUMENT | {"payload_config": {"kind": "toy"}})

    for answer in (none, toy):
        assert answer.status_code == 422
        assert "command, jobscript, merge, root-demo" in str(answer.json()["errors"]["payload_config.kind"])
    assert not Request.objects.exists()


@pytest.mark.parametrize(
    ("plugins", "default", "words"),
    [
        ([], "", ""),
        (["lab.toy"], "toy", ""),
        ([], "toy", "which no job can run"),
        (["lab.none"], "", "lab.none"),
    ],
)
def test_settings_that_no_job_could_follow_are_found_at_start(
    settings: Any, plugins: list[str], default: str, words: str
) -> None:
    settings.PAYLOAD_PLUGINS, settings.DEFAULT_PAYLOAD = plugins, default
    found = check_payloads(None)

    assert [one.id for one in found] == (["wms2.E019"] if words else [])
    assert all(words in one.msg for one in found)
