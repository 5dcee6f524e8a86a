"""The guide has an entry for every alert that the code opens and every reason for which it holds."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest

from requests_app.guide import ALERTS, HOLDS, hold_entry
from requests_app.states import DEADLINES, Overdue

ROOT = Path(__file__).resolve().parents[3]
RAISERS = ("raise_alert", "raise_site_alerts")
FALLBACK = "held"


def modules() -> Iterator[tuple[ModuleType, ast.Module]]:
    for path in sorted((ROOT / "requests_app").rglob("*.py")):
        if "migrations" not in path.parts:
            name = ".".join(path.relative_to(ROOT).with_suffix("").parts)
            yield import_module(name), ast.parse(path.read_text())


def calls(tree: ast.Module, names: tuple[str, ...]) -> Iterator[ast.Call]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in names:
            yield node


def kinds_of(module: ModuleType, value: ast.expr) -> set[str]:
    """Return the kinds that the expression can have."""
    if isinstance(value, ast.Constant):
        return {str(value.value)}
    if isinstance(value, ast.JoinedStr):  # stuck_in_{status}, of those that only raise an alert
        return {f"stuck_in_{status}" for status, one in DEADLINES.items() if one.then is Overdue.ALERT}
    name = ast.unparse(value)
    if name == "kind":  # a loop over kinds of stalls, or a choice of two
        stalls = getattr(module, "StallKind", None)
        return {str(one) for one in stalls} if stalls else {"slow_dag", "schedd_unreachable"}
    return {str(getattr(module, name))}


def test_every_alert_has_an_entry_and_no_entry_is_without_alert() -> None:
    opened: set[str] = set()
    for module, tree in modules():
        for call in calls(tree, RAISERS):
            kind = next((word.value for word in call.keywords if word.arg == "kind"), None)
            assert kind is not None, ast.unparse(call)
            opened |= kinds_of(module, kind)
    assert opened == set(ALERTS)


def test_every_reason_of_a_hold_has_its_own_entry() -> None:
    worded = 0
    for _, tree in modules():
        for call in calls(tree, ("hold",)):
            if not call.args or not isinstance(call.args[0], ast.Constant | ast.JoinedStr):
                continue
            parts = [call.args[0]] if isinstance(call.args[0], ast.Constant) else call.args[0].values
            reason = "".join(str(one.value) if isinstance(one, ast.Constant) else "7" for one in parts)
            worded += 1
            assert hold_entry(reason).slug != FALLBACK, reason
    assert worded >= 8


@pytest.mark.parametrize("gate", ["output check", "ownership", "sites", "memory", "quota"])
def test_a_hold_at_a_gate_leads_to_the_gate(gate: str) -> None:
    assert hold_entry("any words", {"gate": gate}).gate == gate


def test_every_entry_of_the_guide_has_steps() -> None:
    for entry in (*ALERTS.values(), *HOLDS.values()):
        assert entry.meaning.endswith("."), entry.slug
        assert entry.steps, entry.slug
        assert all(isinstance(step, str) and len(step) > 20 for step in entry.steps), entry.slug


def test_the_operating_manual_links_to_entries_that_exist() -> None:
    linked = re.findall(r"\(symptoms\.md#([\w-]+)\)", (ROOT / "docs" / "operating.md").read_text())
    assert set(linked) - {"alerts", "held-requests"} <= {*ALERTS, *HOLDS}
    assert len(linked) > 8
