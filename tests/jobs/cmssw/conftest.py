from __future__ import annotations

from pathlib import Path

import pytest

from tests.cmssw_world import Node, build_node, build_parts


@pytest.fixture(scope="session")
def parts(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Return the sandbox's tarball and the stand-in for CMS software."""
    return build_parts(tmp_path_factory.mktemp("cmssw"))


@pytest.fixture
def node(tmp_path: Path, parts: tuple[Path, Path]) -> Node:
    return build_node(tmp_path, *parts)
