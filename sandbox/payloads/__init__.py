"""The payload kinds that WMS2 ships, one module each; plugins may add others."""

from __future__ import annotations

from sandbox.payloads import cmssw, command, jobscript, merge, root_demo
from sandbox.payloads.base import Kind, Window

__all__ = ["KINDS", "Kind", "Window"]

KINDS: tuple[Kind, ...] = (cmssw.KIND, command.KIND, jobscript.KIND, merge.KIND, root_demo.KIND)
