"""The merge tools that WMS2 ships; plugins may add others."""

from __future__ import annotations

from sandbox.merge_tools import cmssw, plain, root, usercommand
from sandbox.merge_tools.base import MergeTool, UnreadableFile

__all__ = ["TOOLS", "MergeTool", "UnreadableFile"]

TOOLS: tuple[MergeTool, ...] = (root.TOOL, cmssw.TOOL, plain.CONCAT, plain.COPY, usercommand.TOOL)
