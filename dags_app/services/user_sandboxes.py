"""The tarballs of requests: fetched or uploaded once, checked, and kept by their SHA-256.

A tarball that is kept has this digest and unpacks as `sandbox.usersandbox` demands. They are kept below the
submit root, which all processes of WMS2 share.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import BinaryIO
from urllib.parse import urlsplit

from django.conf import settings
from django.db import transaction

from cms.download import download
from condor.layout import Asset
from dags_app.models import Workflow
from dags_app.planning.plan import PlanRefused
from dags_app.services.disk_space import describe, short_of_space
from sandbox.atomic import rename_on_disk
from sandbox.usersandbox import DIGEST_FIELD, NAME, SHA256, BadTarball, check_tarball, sha256_of
from wms2_project.access import audit
from wms2_project.errors import InvalidInput, ServiceRejected, TransientError

DIRECTORY = "sandboxes"
HTTPS = 443


def check_sandbox(*, url: str, digest: str) -> None:
    """Raise InvalidInput if a request names a host that is not allowed, or an unknown tarball."""
    if url:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port or HTTPS
        entry = host if port == HTTPS or settings.SANDBOX_ANY_PORT else f"{host}:{port}"
        if entry not in settings.SANDBOX_HOSTS:
            raise _refused(
                "sandbox_url",
                f"{entry} is not an allowed host of sandboxes",
                "Upload the tarball by PUT /api/v1/sandboxes, or ask an administrator to add the host to"
                " WMS2_SANDBOX_HOSTS",
            )
    elif digest and not path_of(digest).exists():
        message = "no tarball with this SHA-256 was uploaded"
        cure = "Upload it by PUT /api/v1/sandboxes, or name its sandbox_url"
        raise _refused("sandbox_sha256", message, cure)


def user_sandbox_assets(*, workflow: Workflow) -> tuple[Asset, ...]:
    """Return the workflow's tarball for its DAG directory; fetch it first if it is not kept yet.

    Raises PlanRefused if it cannot be used, TransientError if it may be there later.
    """
    digest = workflow.payload_config.get(DIGEST_FIELD)
    if not isinstance(digest, str) or not SHA256.fullmatch(digest):
        return ()
    path = path_of(digest)
    try:
        if not path.exists():
            fetch_sandbox(url=workflow.sandbox_url, digest=digest)
        content = path.read_bytes()
    except (InvalidInput, ServiceRejected) as error:
        raise PlanRefused(error.message, cure=error.cure) from error
    except OSError as error:
        raise TransientError(f"{path} cannot be read or written: {error}") from error
    return (Asset(NAME, content),)


def fetch_sandbox(*, url: str, digest: str) -> None:
    """Fetch a tarball and keep it. Raises InvalidInput or ServiceRejected if it is not the one expected."""
    check_sandbox(url=url, digest=digest)
    with _incoming() as file:
        download(
            url,
            file,
            max_bytes=settings.SANDBOX_MAX_BYTES,
            ca_path=settings.SANDBOX_CA_BUNDLE,
            allow_private=settings.SANDBOX_ALLOW_PRIVATE,
        )
        found = _keep(file, expected=digest)
    if found != digest:
        message = f"{url} has the SHA-256 {found}, not {digest}"
        raise _refused("sandbox_sha256", message, "Correct the address or the digest")


def store_upload(*, chunks: Iterable[bytes], actor: str) -> str:
    """Keep an uploaded tarball, whose size the caller bounds, and return its SHA-256.

    Raises InvalidInput if it is not usable, TransientError while the submit host is short of space.
    """
    if short := short_of_space():
        raise TransientError(f"no uploads are accepted: {describe(short)}", cure="Try again later")
    with _incoming() as file:
        file.writelines(chunks)
        digest = _keep(file)
    with transaction.atomic():
        audit.record(actor=actor, action="upload", target=digest, reason="files of a payload")
    return digest


def remove_unused_sandboxes(*, used: Collection[str], now: datetime) -> int:
    """Remove tarballs that no request uses and that are older than WMS2_KEEP_COMPLETED_DAYS.

    Return how many.
    """
    oldest, removed = now.timestamp() - settings.KEEP_COMPLETED_DAYS * 86_400, 0
    for path in (Path(settings.SUBMIT_ROOT) / DIRECTORY).glob("*.tar.gz"):
        digest = path.name.removesuffix(".tar.gz")
        if digest not in used and path.stat().st_mtime < oldest:
            path.unlink(missing_ok=True)
            removed += 1
    return removed


def path_of(digest: str) -> Path:
    return Path(settings.SUBMIT_ROOT) / DIRECTORY / f"{digest}.tar.gz"


@contextmanager
def _incoming() -> Iterator[BinaryIO]:
    """Yield a file beside those that are kept; it is gone afterwards unless it was given its name."""
    directory = Path(settings.SUBMIT_ROOT) / DIRECTORY
    directory.mkdir(mode=0o755, parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(dir=directory, prefix=".incoming-", delete=False) as file:
        try:
            yield file  # type: ignore[misc]
        finally:
            Path(file.name).unlink(missing_ok=True)


def _keep(file: BinaryIO, *, expected: str = "") -> str:
    """Check the tarball, give it its name and return its digest; another than expected is not kept."""
    file.flush()
    file.seek(0)
    found = sha256_of(file)
    if expected and found != expected:
        return found
    file.seek(0)
    try:
        check_tarball(file)
    except BadTarball as error:
        cure = "Make it with `tar -czf`, of files and directories only"
        raise _refused("sandbox", str(error), cure) from error
    target = path_of(found)
    os.fchmod(file.fileno(), 0o644)
    rename_on_disk(Path(file.name), target)
    return found


def _refused(field: str, message: str, cure: str) -> InvalidInput:
    return InvalidInput(f"{field}: {message}", fields={field: message}, cure=cure)
