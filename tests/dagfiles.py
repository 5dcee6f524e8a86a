"""Reads of DAG files that only tests need."""

from __future__ import annotations

import re
from pathlib import Path

from condor.dagtext import GROUP_DAG

_SITES = re.compile(r'^VARS landing .* SITES="([A-Za-z0-9_,]+)"$', re.ASCII | re.MULTILINE)


def allowed_sites(group_directory: Path) -> frozenset[str]:
    """Return the sites where the group may land, as its `group.dag` says."""
    found = _SITES.search((group_directory / GROUP_DAG).read_text("ascii"))
    return frozenset(found.group(1).split(",")) if found else frozenset()
