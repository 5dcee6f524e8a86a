"""Commands that are parsed without Typer, which takes longer than they do."""

from __future__ import annotations

from typing import Any

import pytest
import typer
from wms2_cli.commands import build_app
from wms2_cli.quick import COMMANDS, global_first, parse_plainly


def test_the_options_of_quick_commands_are_those_of_typer() -> None:
    commands = typer.main.get_command(build_app((), everything=True)).commands  # type: ignore[attr-defined]
    for name, (_, quick) in COMMANDS.items():
        options = [one for one in commands[name].params if one.param_type_name == "option"]
        declared = {flag: one.name for one in options for flag in one.opts if one.name != "help"}
        assert {flag: target for flag, (target, _) in quick.items()} == declared
        assert {one.name for one in options if one.multiple} == {
            target for target, kind in quick.values() if kind is list
        }


@pytest.mark.parametrize(
    ("words", "parsed"),
    [
        (["--status", "held", "-s", "active", "-n", "3"], {"status": ["held", "active"], "limit": 3}),
        ([], {}),
        (["--help"], None),
        (["--limit", "many"], None),
        (["--limit", "0"], None),
        (["--status"], None),
        (["--stat", "held"], None),
        (["--name", "--status"], None),
    ],
)
def test_unusual_calls_are_left_to_typer(words: list[str], parsed: dict[str, Any] | None) -> None:
    assert parse_plainly(words, COMMANDS["list"][1]) == parsed


@pytest.mark.parametrize(
    ("words", "moved"),
    [
        (["list", "-s", "held", "--json"], ["--json", "list", "-s", "held"]),
        (["show", "x", "--server", "lab", "-q"], ["--server", "lab", "-q", "show", "x"]),
        (["show", "--server=lab", "--", "--json"], ["--server=lab", "show", "--", "--json"]),
    ],
)
def test_global_options_may_follow_the_command(words: list[str], moved: list[str]) -> None:
    assert global_first(words) == moved
