"""Bearer tokens as WLCG jobs find them: $BEARER_TOKEN, else the file $BEARER_TOKEN_FILE."""

from __future__ import annotations

import base64
import json
import os
import re
from collections.abc import MutableMapping

from sandbox.storage.base import Kind, StorageError

MAX_TOKEN_BYTES = 100_000
_TOKEN = re.compile(r"[\x21-\x7e]*", re.ASCII)


def discovered_token() -> str:
    """Return the token, '' if there is none. Reads it anew at each call: a batch system may renew the file.

    Raises StorageError if the file is named and cannot be read, or holds something else.
    """
    token = os.environ.get("BEARER_TOKEN", "").strip()
    path = os.environ.get("BEARER_TOKEN_FILE", "")
    if not token and path:
        try:
            with open(path, encoding="ascii", errors="replace") as handle:
                token = handle.read(MAX_TOKEN_BYTES).strip()
        except OSError as error:
            message = f"the token file {path} cannot be read: {error.strerror}"
            raise StorageError(Kind.DENIED, error.errno or 0, message) from error
    if not _TOKEN.fullmatch(token):
        raise StorageError(Kind.DENIED, 0, "the bearer token holds characters that no token has")
    return token


def token_end(token: str) -> float | None:
    """Return when a JSON Web Token ends, in Unix time; None if it does not say. It is not verified."""
    try:
        claims = token.split(".")[1]
        end = json.loads(base64.urlsafe_b64decode(claims + "=" * (-len(claims) % 4)))["exp"]
        return float(end)
    except (LookupError, TypeError, ValueError):
        return None


def use_job_credentials(environment: MutableMapping[str, str]) -> None:
    """Set BEARER_TOKEN_FILE to the token that HTCondor keeps fresh for this job, if it has one."""
    directory, name = environment.get("_CONDOR_CREDS", ""), environment.get("WMS2_TOKEN_FILE", "")
    if directory and name and "/" not in name:
        environment["BEARER_TOKEN_FILE"] = os.path.join(directory, name)
        environment.pop("BEARER_TOKEN", None)  # would take precedence and is never renewed
