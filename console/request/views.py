"""The live parts of the request page."""

from __future__ import annotations

from console.fragments import Fragment
from console.request.page import read_status, read_work
from wms2_project.changes import request_topic


def _topics(name: str) -> frozenset[str]:
    return frozenset({request_topic(name)})


REQUEST_STATUS = Fragment(
    name="request-status", template="console/request/status.html", read=read_status, topics=_topics
)
REQUEST_WORK = Fragment(
    name="request-work", template="console/request/work.html", read=read_work, topics=_topics
)
