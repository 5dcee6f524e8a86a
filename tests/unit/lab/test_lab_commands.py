"""status, env and logs."""

from __future__ import annotations

import os
import subprocess

import pytest

from lab import commands
from lab.errors import LabError
from lab.paths import Layout
from lab.processes import started_at
from lab.state import Phase, ServiceState, StackState, save_state, take_lock


@pytest.mark.parametrize(
    "value", ["plain", "two words", "it's", '"$HOME" `id` \\', "a;b|c&d", "line\nbreak", ""]
)
def test_exports_survive_a_shell_with_any_content(value: str) -> None:
    text = commands.render_exports({"WMS2_TOKEN": value, "SECRET_KEY": "never printed"})

    shell = subprocess.run(
        ["bash", "-c", 'eval "$1"; printf %s "$WMS2_TOKEN"', "-", text],
        capture_output=True,
        text=True,
        check=True,
    )

    assert shell.stdout == value
    assert "SECRET_KEY" not in text


def test_status_distinguishes_running_from_ended_services() -> None:
    pid = os.getpid()
    web = ServiceState(name="web", pid=pid, started_at=started_at(pid), since=0.0, restarts=2)
    beat = ServiceState(name="beat", pid=0, started_at=None, since=0.0, restarts=0)
    state = StackState(
        pid=pid, started_at=started_at(pid), since=0.0, phase=Phase.READY, services=(web, beat)
    )

    lines = commands.render_status(state, now=3725.0).splitlines()

    assert lines[2].split() == ["web", str(pid), "up", "1h02m", "2"]
    assert lines[3].split() == ["beat", "-", "dead"]


def test_status_names_a_failing_service_and_its_log(
    layout: Layout, capsys: pytest.CaptureFixture[str]
) -> None:
    pid = os.getpid()
    web = ServiceState(
        name="web",
        pid=pid,  # up for the moment, but it has not stayed up yet
        started_at=started_at(pid),
        since=0.0,
        restarts=5,
        deaths=5,
        failing=True,
        last_death="exit code 7",
        log="/logs/web.log",
    )
    lock = take_lock(layout)
    save_state(
        layout,
        StackState(pid=pid, started_at=started_at(pid), since=0.0, phase=Phase.READY, services=(web,)),
    )

    code = commands.status(layout)

    assert code == 1
    said = capsys.readouterr().out
    lines = said.splitlines()
    assert lines[1].split()[2] == "degraded"
    assert lines[2].split()[:3] == ["web", str(pid), "failing"]
    assert "degraded: web died 5 times in a row (exit code 7 the last time)" in said
    assert "/logs/web.log" in said
    assert lock is not None
    os.close(lock)


@pytest.mark.parametrize(
    ("seconds", "text"), [(0, "0s"), (59.9, "59s"), (61, "1m01s"), (7260, "2h01m"), (-5, "0s")]
)
def test_spans_are_short(seconds: float, text: str) -> None:
    assert commands.span(seconds) == text


def test_status_of_nothing_is_three(layout: Layout, capsys: pytest.CaptureFixture[str]) -> None:
    assert commands.status(layout) == 3
    assert str(layout.home) in capsys.readouterr().out


def test_env_of_nothing_prints_nothing_a_shell_could_eval(
    layout: Layout, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(LabError) as refused:
        commands.env(layout)

    assert refused.value.exit_code == 3
    assert "./wms2 up" in str(refused.value)
    assert capsys.readouterr().out == ""


def test_logs_lists_ours_and_the_pools(layout: Layout, capsys: pytest.CaptureFixture[str]) -> None:
    (layout.log / "web.log").write_text("hello")
    pool = layout.data / "condor" / "log"
    pool.mkdir(parents=True)
    (pool / "SchedLog").write_text("")

    assert commands.logs(layout, []) == 0

    names = [line.split()[0] for line in capsys.readouterr().out.splitlines()]
    assert names == ["condor/SchedLog", "web"]


def test_logs_of_an_unknown_name_lists_the_known_ones(layout: Layout) -> None:
    (layout.log / "web.log").write_text("hello")

    (layout.log / "beat.log").write_text("hello")

    with pytest.raises(LabError, match=r"no log 'wbe' in .*: choose from\n  beat\n  web$"):
        commands.logs(layout, ["wbe"])


@pytest.mark.parametrize(
    ("words", "wrong"), [(["web", "-n", "3"], "-n 3"), (["web", "beat"], "beat"), (["-x"], "-x")]
)
def test_logs_names_the_words_it_does_not_take(layout: Layout, words: list[str], wrong: str) -> None:
    (layout.log / "web.log").write_text("hello")

    with pytest.raises(LabError, match=f"logs takes one name and -f, not {wrong}:") as refused:
        commands.logs(layout, words)

    assert refused.value.exit_code == 2


def test_down_without_a_stack_is_no_error(layout: Layout, capsys: pytest.CaptureFixture[str]) -> None:
    assert commands.down(layout) == 0
    assert "no stack was running" in capsys.readouterr().err
