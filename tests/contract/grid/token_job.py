"""The payload of test_job_tokens.py: writes to the storage with the token that came with the job.

usage: token_job.py ALLOWED-URL DENIED-URL CA-FILE TOKEN-FILE wait|go
Prints the statuses of writing to both. With `wait` it first waits until its token has been renewed.
"""

from __future__ import annotations

import http.client
import os
import ssl
import sys
import time
from pathlib import Path
from urllib.parse import urlsplit

PATIENCE_SEC = 240.0


def put(url: str, token: str, ca: str) -> int:
    parts = urlsplit(url)
    context = ssl.create_default_context(cafile=ca)
    connection = http.client.HTTPSConnection(parts.netloc, timeout=60, context=context)
    connection.request("PUT", parts.path, body=b"x", headers={"Authorization": f"Bearer {token}"})
    return connection.getresponse().status


def say(*words: object) -> None:
    sys.stdout.write(" ".join(map(str, words)) + "\n")
    sys.stdout.flush()


def main(allowed: str, denied: str, ca: str, token_file: str, when: str) -> None:
    path = Path(os.environ["_CONDOR_CREDS"], token_file)
    first, end = path.read_text(), time.monotonic() + PATIENCE_SEC
    say("started")
    while when == "wait" and path.read_text() == first and time.monotonic() < end:
        time.sleep(0.2)
    token = path.read_text()
    say("renewed" if token != first else "same", put(allowed, token, ca), put(denied, token, ca))


if __name__ == "__main__":
    main(*sys.argv[1:])
