"""Checks a CWL document in a process of its own, with limits: nothing in the document is trusted.

Reads {"text": …, "wiring_only": …} from standard input, writes `workflow`, `problems` and `places` as JSON.
cwltool reads only this document: references to other documents are refused, never fetched.
"""

from __future__ import annotations

import json
import logging
import re
import resource
import sys
from dataclasses import asdict
from typing import Any
from urllib.parse import urldefrag, urljoin

from chains_app.cwl.documents import Unreadable, load_document
from chains_app.cwl.reading import Reading, read_workflow
from chains_app.cwl.types import Problem, to_json

MEMORY_BYTES = 1024 * 1024 * 1024
CPU_SEC = 10
URI = "file:///template.cwl"
_OWN = re.compile(r"(?:file:///|\S*)template\.cwl#?")
_PLACED = re.compile(r"^\S*template\.cwl:(\d+):(\d+):(\s*)(.*)$")


def main() -> None:
    for kind, most in ((resource.RLIMIT_DATA, MEMORY_BYTES), (resource.RLIMIT_CPU, CPU_SEC)):
        _, hard = resource.getrlimit(kind)
        resource.setrlimit(kind, (most if hard == resource.RLIM_INFINITY else min(most, hard), hard))
    task = json.load(sys.stdin)
    reading = check_text(task["text"], wiring_only=task["wiring_only"])
    sound = reading.workflow is not None and not reading.problems
    json.dump(
        {
            "workflow": to_json(reading.workflow) if sound and reading.workflow else None,
            "problems": [asdict(one) for one in reading.problems],
            "places": reading.places,
        },
        sys.stdout,
    )


def check_text(text: str, *, wiring_only: bool) -> Reading:
    """Return the workflow of a document with all problems that WMS2 and cwltool find."""
    try:
        reading = read_workflow(load_document(text), wiring_only=wiring_only)
    except Unreadable as error:
        return Reading(problems=[error.problem])
    if wiring_only or reading.points_elsewhere:
        return reading
    known = {one.line for one in reading.problems}
    for problem in _cwltool_problems(text):
        if problem.line not in known and (problem.line or not reading.problems):
            reading.problems.append(problem)
    reading.problems.sort(key=lambda one: (one.line, one.column))
    return reading


def _cwltool_problems(text: str) -> list[Problem]:
    from cwltool import workflow
    from cwltool.context import LoadingContext
    from cwltool.errors import WorkflowException
    from cwltool.load_tool import default_loader, fetch_document, make_tool, resolve_and_validate_document
    from schema_salad.exceptions import SchemaSaladException
    from schema_salad.fetcher import Fetcher

    class OnlyThis(Fetcher):
        """Fetcher that serves only the document and refuses every other address."""

        def __init__(self, cache: Any, session: Any) -> None:
            """Accept the arguments that the loader passes, and ignore them."""

        def fetch_text(self, url: str, content_types: Any = None) -> str:
            if url != URI:
                raise SchemaSaladException(f"{url} is never fetched")
            return text

        def check_exists(self, url: str) -> bool:
            return urldefrag(url)[0] == URI

        def urljoin(self, base_url: str, url: str) -> str:
            return urljoin(base_url, url)

        def supported_schemes(self) -> list[str]:
            return ["file", "http", "https"]

    for name in ("cwltool", "salad"):
        logging.getLogger(name).handlers = [logging.NullHandler()]
        logging.getLogger(name).propagate = False
    settings = {"fetcher_constructor": OnlyThis, "construct_tool_object": workflow.default_make_tool}
    context = LoadingContext(settings | {"strict": False, "do_validate": True, "disable_js_validation": True})
    context.loader = default_loader(OnlyThis)
    try:
        context, loaded, uri = fetch_document(URI, context)
        context, uri = resolve_and_validate_document(context, loaded, uri)
        make_tool(uri, context)
    except (
        SchemaSaladException,
        WorkflowException,
        ValueError,
        KeyError,
        TypeError,
        AttributeError,
    ) as error:
        return parse_message(str(error)) or [Problem(f"cwltool: {type(error).__name__}: {str(error)[:300]}")]
    return []


def parse_message(text: str) -> list[Problem]:
    """Return the innermost statements of a message of cwltool, each with its place."""
    placed: list[tuple[int, int, int, str]] = []
    for line in text.splitlines():
        found = _PLACED.match(line)
        if found is not None:
            placed.append((int(found[1]), int(found[2]), len(found[3]), found[4].strip()))
        elif placed and line.strip():
            last = placed[-1]
            placed[-1] = (*last[:3], f"{last[3]} {line.strip()}")
    problems: list[Problem] = []
    for number, (row, column, indent, message) in enumerate(placed):
        deeper = number + 1 < len(placed) and placed[number + 1][2] > indent
        if message.startswith("with sink") and problems:
            first = problems.pop()
            problems.append(Problem(f"{first.message} {message}", row, column))
        elif not deeper or message.startswith("Source "):
            problems.append(Problem(message, row, column))
    if not problems and text.strip():
        problems = [Problem(" ".join(text.split())[:500])]
    return [Problem(_OWN.sub("", one.message), one.line, one.column) for one in problems]


if __name__ == "__main__":
    main()
