"""A job finds its token where HTCondor keeps it fresh."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.unit.sandbox.conftest import World

NODE = "proc_000000"


@pytest.mark.parametrize("brought", [True, False])
def test_tools_find_the_token_that_htcondor_brought(
    world: World, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, brought: bool
) -> None:
    token = tmp_path / "creds" / "cms_ab.use"
    token.parent.mkdir()
    if brought:
        token.write_text("token")
    monkeypatch.setenv("_CONDOR_CREDS", str(token.parent))
    monkeypatch.setenv("WMS2_TOKEN_FILE", token.name)
    monkeypatch.setenv("BEARER_TOKEN_FILE", "as before")
    monkeypatch.setenv("BEARER_TOKEN", "")
    world.add_job(NODE, [world.add_file("a", 10)])
    world.plan()

    assert world.run(NODE) == 0
    assert os.environ["BEARER_TOKEN_FILE"] == (str(token) if brought else "as before")
