"""Check the text of a document as the API does, and find the line of each problem."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any

from requests_app.documents import check_size
from requests_app.services.reading import read_request
from wms2_project.errors import InvalidInput, Wms2Error

MAX_CHARACTERS = 1_000_000


@dataclass(frozen=True, slots=True)
class Wrong:
    """One problem: the field, the message, and the line of the text; 0 if it has none."""

    field: str
    message: str
    line: int


@dataclass(frozen=True, slots=True)
class Checked:
    """Errors of a text, and the name of the request if it can be read."""

    problems: list[Wrong]
    request_name: str = ""


def check_text(text: str) -> Checked:
    """Return all problems of a document at once. Nothing is stored and no service is called."""
    if len(text) > MAX_CHARACTERS:
        return Checked([Wrong("document", "the document is too long: at most 1 MB", 0)])
    try:
        document = json.loads(text)
    except json.JSONDecodeError as error:
        return Checked([Wrong("JSON", f"{error.msg}, column {error.colno}", error.lineno)])
    except (ValueError, RecursionError):
        return Checked([Wrong("JSON", "the text is nested too deeply or has a number that is too long", 0)])
    if not isinstance(document, dict):
        return Checked([Wrong("JSON", "the document must be an object: {…}", 1)])
    return _check_document(document, text)


def _check_document(document: dict[str, Any], text: str) -> Checked:
    try:
        check_size(document)
        return Checked([], read_request(document).request_name)
    except InvalidInput as error:
        found = error.fields or {"document": str(error)}
        problems = [Wrong(field, message, line_of(field, text)) for field, message in found.items()]
        return Checked(sorted(problems, key=lambda one: (not one.line, one.line)))
    except Wms2Error as error:
        return Checked([Wrong("document", str(error), 0)])


def line_of(field: str, text: str) -> int:
    """Return the line of a field's key, searching the parts of its path in order; 0 if it is not there."""
    position = 0
    for part in re.findall(r"[A-Za-z_][\w-]*", field):
        found = re.compile(rf'"{re.escape(part)}"\s*:', re.IGNORECASE).search(text, position)
        if found is None:
            break
        position = found.start() + 1
    return text.count("\n", 0, position) + 1 if position else 0
