"""The calls of one runner over HTTP."""

from __future__ import annotations

import zlib
from pathlib import Path
from typing import Any
from uuid import uuid4

from django.conf import settings
from rest_framework.test import APIClient

from dags_app.models import Workflow
from dags_app.pull.tokens import TokenKind, group_subject, make_token
from tests.integration.pull.factories import CERN

Json = dict[str, Any]


def group_token(workflow: Workflow, *, round_number: int = 0, group: int = 0) -> str:
    subject = group_subject(round_number=round_number, group=group)
    return make_token(
        key=settings.JOB_TOKEN_KEY, workflow_id=workflow.pk, kind=TokenKind.GROUP, subject=subject
    )


class Job:
    """One job of the workflow; `answer` is the last answer."""

    def __init__(self, workflow: Workflow, *, node: str = "proc_000000", site: str = CERN) -> None:
        self.workflow, self.client = workflow, APIClient(raise_request_exception=False)
        self.start_body: Json = {
            "node": node, "attempt": 0, "instance": str(uuid4()), "htcondor_id": "1.0", "site": site,
            "slot": "slot1@node", "seconds_left": 3600,
        }  # fmt: skip
        self.token = group_token(workflow)
        self.started: Json = {}

    def post(self, call: str, body: Json, *, token: str, expect: int = 200) -> Json:
        url = f"/api/v1/workflows/{self.workflow.pk}/{call}"
        self.answer = self.client.post(url, body, format="json", HTTP_AUTHORIZATION=f"Bearer {token}")
        assert self.answer.status_code == expect, self.answer.content
        return dict(self.answer.json())

    def start(self, *, expect: int = 200, **changes: Any) -> Json:
        answer = self.post("runners", self.start_body | changes, token=self.token, expect=expect)
        if expect == 200:
            self.started = answer
        return answer

    def call(self, name: str, body: Json, *, expect: int = 200) -> Json:
        return self.post(name, body, token=self.started["runner_token"], expect=expect)

    def allocate(self, count: int = 1, *, call: str = "", expect: int = 200) -> list[Json]:
        body = {"count": count, "call": call or str(uuid4())}
        answer = self.post("allocate", body, token=self.started["files_token"], expect=expect)
        return list(answer.get("files", ()))

    def record(self, processed: list[str], outputs: list[Json], *, expect: int = 200) -> Json:
        return self.call("record", {"processed": processed, "outputs": outputs}, expect=expect)

    def confirm(self, outputs: list[Json], *, expect: int = 200) -> Json:
        return self.call("confirm", {"outputs": outputs}, expect=expect)

    def abort(self, reason: str = "exit code 1", *, expect: int = 200) -> Json:
        return self.call("abort", {"reason": reason, "exit_code": 1}, expect=expect)

    def upload(self, recorded: Json, site: str) -> list[Json]:
        """Write the recorded outputs to the storage of a site; return the body's outputs of confirm."""
        for output in recorded["outputs"]:
            path = Path(f"{settings.SITE_STORAGE[site][0]}{output['lfn']}")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content_of(output["name"]))
        return [{"name": one["name"], "site": site} for one in recorded["outputs"]]


def content_of(name: str) -> bytes:
    return f"content of {name}".encode()


def output(name: str, **changes: Any) -> Json:
    """Return the entry of a file in the body of record."""
    content = content_of(name)
    facts = {"size_bytes": len(content), "adler32": f"{zlib.adler32(content):08x}"}
    return {"name": name, "events": 10, "lumis": [[1, 1, 1]]} | facts | changes
