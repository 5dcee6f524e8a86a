"""Payload of a request: its kind and the validation of its configuration. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sandbox.failure import JobFailure
from sandbox.registry import Registry, load_registry

CMSSW = "cmssw"
MERGE = "merge"


def passes_events(payload: Mapping[str, Any]) -> bool:
    """Return whether jobs pass the events of whole files on unchanged: their sizes are those of the input."""
    return payload.get("kind") == MERGE


def harvest_of(payload: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Return how a CMSSW payload harvests histograms: unit and dataset; None if it does not."""
    section = payload.get(CMSSW) if payload.get("kind") == CMSSW else None
    steps = section.get("steps") if isinstance(section, Mapping) else None
    first = steps[0] if isinstance(steps, list) and steps else None
    found = first.get("harvest") if isinstance(first, Mapping) else None
    return found if isinstance(found, Mapping) else None


def reads_whole_runs(payload: Mapping[str, Any]) -> bool:
    """Return whether a job that read a part of its input would write something else: no pilot is possible."""
    return passes_events(payload) or harvest_of(payload) is not None


class PayloadRefused(Exception):
    """No job could run this payload_config; `field` is the one to change."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(message)
        self.field = field
        self.message = message


@dataclass(frozen=True, slots=True)
class PayloadRules:
    """The kinds that jobs here can run, and the kind of a request that names none ('' = it must name one)."""

    plugins: tuple[str, ...] = ()
    default: str = ""

    @property
    def registry(self) -> Registry:
        return load_registry(self.plugins)

    def with_kind(self, payload: Mapping[str, Any], *, release: str) -> dict[str, Any]:
        """Return the payload_config with its kind. Raises PayloadRefused naming the kinds if it has none.

        In this order: the kind it names, the kind whose section it has, `cmssw` for a request with a CMSSW
        release, the default.
        """
        named = self.registry.named_kind(payload)
        by_release = CMSSW if release and CMSSW in self.registry.kinds else ""
        kind = named or by_release or self.default
        names = ", ".join(sorted(self.registry.kinds))
        if not kind:
            raise PayloadRefused("kind", f"is missing; name what the jobs run, one of {names}")
        if kind not in self.registry.kinds:
            raise PayloadRefused("kind", f"{kind[:80]!r} is not a payload of this installation; use {names}")
        return {**payload, "kind": kind}

    def check(self, payload: Mapping[str, Any]) -> None:
        """Raise PayloadRefused if every job would refuse this payload_config, which has a kind."""
        try:
            self.registry.check(payload)
        except JobFailure as failure:
            raise PayloadRefused("", failure.message.removeprefix("payload: ")) from failure

    def joins(self, payload: Mapping[str, Any]) -> bool:
        """Return whether the files of several jobs can be merged into one; True if it is not known."""
        try:
            return self.registry.merge_tool_of(payload).joins
        except JobFailure:
            return True
