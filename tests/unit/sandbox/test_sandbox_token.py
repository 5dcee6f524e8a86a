"""A job finds its token where HTCondor keeps it fresh."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.job_world import World

NODE = "proc_000000"


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({"_CONDOR_CREDS": "/scratch/.creds", "WMS2_TOKEN_FILE": "cms_ab.use"}, "/scratch/.creds/cms_ab.use"),
        ({"_CONDOR_CREDS": "/scratch/.creds"}, "as before"),
        ({"WMS2_TOKEN_FILE": "cms_ab.use"}, "as before"),
        ({}, "as before"),
    ],
)
def test_tools_find_the_token_that_htcondor_keeps_fresh(
    world: World, monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], expected: str
) -> None:
    for name in ("_CONDOR_CREDS", "WMS2_TOKEN_FILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("BEARER_TOKEN_FILE", "as before")
    monkeypatch.setenv("BEARER_TOKEN", "")
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    world.add_job(NODE, [world.add_file("a", 10)])
    world.plan()

    assert world.run(NODE) == 0
    assert os.environ["BEARER_TOKEN_FILE"] == expected
