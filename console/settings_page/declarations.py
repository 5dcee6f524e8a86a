"""Settings as they are declared: read from the modules of `wms2_project.settings` and docs/settings.md."""

from __future__ import annotations

import ast
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import wms2_project.settings
from wms2_project.settings.environment import LAB

DECLARED = Path(wms2_project.settings.__file__).parent
DOCUMENT = DECLARED.parents[1] / "docs" / "settings.md"
HIDDEN = "hidden"
_SECRET = re.compile(r"SECRET|PASSWORD|TOKEN|BASIC_AUTH|_KEY\b|_KEY$|WEBHOOK")
_HARMLESS = re.compile(r"_(FILE|SEC|DIR|ISSUER|AUDIENCE|CLIENT_ID|DAYS|HOURS)$|TOKEN_URL$|HOSTS$")
_CREDENTIALS = re.compile(r"(?<=//)[^/@\s]+@")


@dataclass(frozen=True, slots=True)
class Declaration:
    """One environment variable: its module, type and default."""

    name: str
    concern: str
    kind: str
    default: str
    required: bool


@dataclass(frozen=True, slots=True)
class Setting:
    """A declaration with its present value, where it comes from, and what it means."""

    name: str
    concern: str
    kind: str
    value: str
    source: str
    meaning: str
    missing: bool


@cache
def declarations() -> tuple[Declaration, ...]:
    """Return every variable that the settings read, by module."""
    found: dict[str, Declaration] = {}
    for path in sorted(DECLARED.glob("*.py")):
        for one in _declared_in(ast.parse(path.read_text()), path.stem):
            found.setdefault(one.name, one)
    return tuple(found.values())


def _declared_in(tree: ast.Module, concern: str) -> Iterator[Declaration]:
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call) or not node.args or not isinstance(node.args[0], ast.Constant):
            continue
        reader = ast.unparse(node.func)
        if re.fullmatch(r"env(\.\w+)?", reader):
            given = {word.arg: word.value for word in node.keywords}
            default = given.get("default")
            yield Declaration(
                name=str(node.args[0].value),
                concern=concern,
                kind=reader.partition(".")[2] or "json",
                default="" if default is None else _shown(default),
                required=default is None,
            )


def _shown(default: ast.expr) -> str:
    """Return the default as it applies: of `x if LAB else y` the one of this installation."""
    if isinstance(default, ast.IfExp) and ast.unparse(default.test) == "LAB":
        default = default.body if LAB else default.orelse
    try:
        value: Any = ast.literal_eval(default)
    except ValueError:
        text = ast.unparse(default)
        return {"LAB": str(LAB), "not LAB": str(not LAB)}.get(text, text)
    if isinstance(value, list | tuple):
        return ", ".join(map(str, value))
    return "" if value is None else str(value)


@cache
def meanings() -> Mapping[str, str]:
    """Return the meaning of each variable from the tables of docs/settings.md; empty without the document."""
    if not DOCUMENT.exists():
        return {}
    found: dict[str, str] = {}
    for line in DOCUMENT.read_text().splitlines():
        cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", line)]
        if len(cells) >= 5 and cells[1].startswith("`"):
            for name in _names(cells[1]):
                found.setdefault(name, cells[3].replace("\\|", "|"))
    return found


def _names(cell: str) -> Iterator[str]:
    """Yield the names of a cell. `_SUFFIX` stands for the first name with another end."""
    first = ""
    for name in re.findall(r"`([A-Z0-9_]+)`", cell):
        if not name.startswith("_"):
            first = name
            yield name
        else:
            parts = first.split("_")
            yield from ("_".join(parts[:end]) + name for end in range(1, len(parts)))


def settings(environment: Mapping[str, str] = os.environ) -> list[Setting]:
    """Return every setting with its value; secrets are hidden."""
    return [_setting(one, environment) for one in declarations()]


def _setting(one: Declaration, environment: Mapping[str, str]) -> Setting:
    given = environment.get(one.name)
    value = one.default if given is None else given
    if is_secret(one.name):
        value = HIDDEN if value else ""
    return Setting(
        name=one.name,
        concern=one.concern,
        kind=one.kind,
        value=_CREDENTIALS.sub("…@", value),
        source="environment" if given is not None else "default",
        meaning=meanings().get(one.name, ""),
        missing=one.required and given is None,
    )


def is_secret(name: str) -> bool:
    """Return whether the value must not be shown. The name of a file that holds a secret may be shown."""
    return bool(_SECRET.search(name)) and not _HARMLESS.search(name)
