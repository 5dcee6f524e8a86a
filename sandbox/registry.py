"""The payload kinds and merge tools of a process: those of WMS2 and those of the plugins it was given.

A plugin is a Python package with `KINDS` and `MERGE_TOOLS`. `build_sandbox(plugins=...)` adds it to the
tarball together with a list of its plugins; a job knows no other kinds than those its tarball carries.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from importlib import import_module
from pathlib import Path
from typing import Any

from sandbox.context import Context, wall_time_limit
from sandbox.failure import BAD_CONFIGURATION, JobFailure
from sandbox.merge_tools import TOOLS, MergeTool
from sandbox.payloads import KINDS, Kind

PLUGINS_FILE = Path(__file__).with_name("plugins.json")


@dataclass(frozen=True)
class Registry:
    """Kinds and tools by name."""

    kinds: Mapping[str, Kind]
    merge_tools: Mapping[str, MergeTool]

    def named_kind(self, payload: Mapping[str, Any]) -> str:
        """Return the kind a payload_config names by `kind` or by a kind's section; '' if it names none."""
        if payload.get("kind") is not None:
            return str(payload["kind"])
        found = (kind.name for kind in self.kinds.values() if payload.get(kind.section) is not None)
        return next(found, "")

    def kind_of(self, payload: Mapping[str, Any]) -> Kind:
        """Return the kind of a payload_config. Raises JobFailure for an unknown kind."""
        name = self.named_kind(payload)
        if name not in self.kinds:
            raise _refused("kind", payload.get("kind"), self.kinds)
        return self.kinds[name]

    def merge_tool_of(self, payload: Mapping[str, Any]) -> MergeTool:
        """Return the tool of `merge.tool`, else that of the kind. Raises JobFailure if unknown."""
        merge = payload.get("merge") or {}
        if not isinstance(merge, dict):
            raise JobFailure(BAD_CONFIGURATION, f"payload: merge: {merge!r:.80} is not an object")
        name = merge.get("tool") or self.kind_of(payload).merge_tool
        if not isinstance(name, str) or name not in self.merge_tools:
            raise _refused("merge: tool", name, self.merge_tools)
        tool = self.merge_tools[name]
        tool.check(merge)
        return tool

    def check(self, payload: Mapping[str, Any]) -> None:
        """Raise JobFailure if every job would refuse this payload_config."""
        self.kind_of(payload).read_config(payload)
        self.merge_tool_of(payload)
        wall_time_limit(payload)


def start_payload(context: Context) -> tuple[Kind, Any]:
    """Start the payload in a job of any role; return its kind and its configuration."""
    payload = context.manifest.payload
    kind = context.registry.kind_of(payload)
    config = kind.read_config(payload)
    context.registry.merge_tool_of(payload)
    kind.start(context, config)
    return kind, config


def _refused(field: str, value: object, known: Mapping[str, object]) -> JobFailure:
    names = ", ".join(sorted(known))
    return JobFailure(BAD_CONFIGURATION, f"payload: {field}: {value!r:.80} is not one of {names}")


@lru_cache(maxsize=16)
def load_registry(plugins: tuple[str, ...] = ()) -> Registry:
    """Return the kinds and tools of WMS2 and of these packages. Raises ImportError."""
    packages = [import_module(name) for name in plugins]
    kinds = [*KINDS, *(kind for package in packages for kind in package.KINDS)]
    tools = [*TOOLS, *(tool for package in packages for tool in package.MERGE_TOOLS)]
    return Registry({kind.name: kind for kind in kinds}, {tool.name: tool for tool in tools})


def shipped_plugins() -> tuple[str, ...]:
    """Return the plugins of the tarball or scripts directory this code runs from."""
    try:
        return tuple(json.loads(PLUGINS_FILE.read_text(encoding="ascii")))
    except FileNotFoundError:
        return ()
