"""The bash entry point: refusals and their messages."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]


def wms2(*arguments: str, cwd: Path = ROOT, **env: str) -> subprocess.CompletedProcess[str]:
    plain = {name: os.environ[name] for name in ("PATH", "HOME", "USER") if name in os.environ}
    return subprocess.run(
        [ROOT / "wms2", *arguments], env={**plain, **env}, cwd=cwd, capture_output=True, text=True
    )


def errors(done: subprocess.CompletedProcess[str]) -> list[str]:
    return [line for line in done.stderr.splitlines() if "error: " in line]


def test_help_names_every_command() -> None:
    done = wms2("help")

    assert done.returncode == 0
    for command in ("up", "down", "status", "env", "manage", "logs", "demo", "test", "bench", "fault"):
        assert f"\n  {command} " in done.stdout


def test_an_unknown_command_shows_the_help_and_is_an_error() -> None:
    done = wms2("upp")

    assert done.returncode == 2
    assert done.stdout == ""
    assert "usage: ./wms2" in done.stderr


@pytest.mark.parametrize(("command", "code"), [("status", 3), ("env", 3), ("logs", 3), ("down", 0)])
def test_commands_for_a_running_stack_report_that_no_stack_has_run(
    tmp_path: Path, command: str, code: int
) -> None:
    done = wms2(command, cwd=tmp_path, WMS2_HOME=str(tmp_path / "none"), WMS2_CACHE=str(tmp_path / "cache"))

    assert done.returncode == code
    assert done.stdout == ""
    assert "./wms2 up" in done.stderr


def test_a_state_directory_htcondor_could_not_take_is_refused(tmp_path: Path) -> None:
    done = wms2("up", WMS2_HOME=str(tmp_path / "with blank"))

    assert done.returncode == 1
    assert len(errors(done)) == 1
    assert "set WMS2_HOME" in errors(done)[0]


def test_a_full_disk_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    fake = tmp_path / "bin" / "df"
    fake.parent.mkdir()
    fake.write_text("#!/bin/sh\necho header; echo disk 1 1 7 99% /\n")
    fake.chmod(0o755)
    home = tmp_path / "home"

    done = wms2(
        "up", WMS2_HOME=str(home), WMS2_CACHE=str(tmp_path / "c"), PATH=f"{fake.parent}:{os.environ['PATH']}"
    )

    assert done.returncode == 1
    assert "only 7 MB free" in errors(done)[0]
    assert "WMS2_HOME" in errors(done)[0]
    assert not home.exists()


def test_an_unsupported_machine_is_refused(tmp_path: Path) -> None:
    fake = tmp_path / "bin" / "uname"
    fake.parent.mkdir()
    fake.write_text('#!/bin/sh\n[ "$1" = -m ] && echo riscv64 || echo Linux\n')
    fake.chmod(0o755)

    done = wms2("up", WMS2_HOME=str(tmp_path / "h"), PATH=f"{fake.parent}:{os.environ['PATH']}")

    assert done.returncode == 1
    assert "riscv64" in errors(done)[0]


def test_every_bash_file_parses() -> None:
    scripts = [ROOT / "wms2", ROOT / ".ci" / "run", *(ROOT / "lab").rglob("*.sh")]

    assert len(scripts) > 5
    for script in scripts:
        assert subprocess.run(["bash", "-n", script], capture_output=True).returncode == 0, script


@pytest.mark.parametrize("name", ["wms2", ".ci/run", "lab/pool/install-private.sh"])
def test_scripts_for_users_are_executable(name: str) -> None:
    assert os.access(ROOT / name, os.X_OK)


def test_a_shell_inside_a_stack_does_not_hand_its_private_servers_on(tmp_path: Path) -> None:
    script = f"""
        HERE={ROOT} ME=1 HOME={tmp_path}; getent() {{ :; }}; die() {{ echo "$*"; exit 1; }}
        . {ROOT}/lab/bootstrap/home.sh; choose_places
        echo "${{DATABASE_URL-gone}} ${{REDIS_URL-gone}} ${{PATH+kept}}"
    """
    env = {
        "DATABASE_URL": "private",
        "REDIS_URL": "outside",
        "WMS2_PRIVATE": "DATABASE_URL PATH",
        "PATH": os.environ["PATH"],
    }

    done = subprocess.run(["bash", "-c", script], env=env, capture_output=True, text=True)

    assert done.stdout.split() == ["gone", "outside", "kept"]


@pytest.mark.parametrize(
    ("given", "message"), [({"SUDO_USER": "ana", "WMS2_PERSON": "eve"}, "ana"), ({}, "sam")]
)
def test_the_person_is_known_after_the_privilege_drop(
    tmp_path: Path, given: dict[str, str], message: str
) -> None:
    fake = tmp_path / "id"
    fake.write_text('#!/bin/sh\n[ "$1" = -u ] && echo 0 || echo sam\n')
    fake.chmod(0o755)
    script = f"""
        getent() {{ :; }}; WMS2_HOME={tmp_path}
        . {ROOT}/lab/bootstrap/privilege.sh; make_drop
        printf '%s\\n' "${{DROP[@]}}"
    """

    done = subprocess.run(
        ["bash", "-c", script],
        env={**given, "PATH": f"{tmp_path}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
    )

    assert f"WMS2_PERSON={message}" in done.stdout.splitlines()


@pytest.mark.parametrize(("reachable", "message"), [("true", ""), ("false", "belongs to user")])
def test_the_stack_of_another_user_is_refused_in_one_sentence(
    tmp_path: Path, reachable: str, message: str
) -> None:
    (tmp_path / "run").mkdir()
    script = f"""
        OWNER=eve WMS2_HOME={tmp_path}; as_owner() {{ {reachable}; }}; die() {{ echo "$*"; exit 1; }}
        . {ROOT}/lab/bootstrap/home.sh; check_owner
    """

    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True)

    assert done.returncode == (1 if message else 0)
    assert message in done.stdout
    assert done.stderr == ""


@pytest.mark.parametrize(
    ("verifier", "user", "refused"),
    [("gpgv", "1000", False), ("sqv", "1000", False), ("", "1000", True), ("", "0", False)],
    ids=["Debian 12", "Debian 13", "neither", "neither, as root"],
)
def test_packages_are_fetched_with_any_available_signature_checker(
    tmp_path: Path, verifier: str, user: str, refused: bool
) -> None:
    """The command fails afterwards, because this apt has no mirror."""
    programs = {
        "apt-get": f'echo "$*" >>{tmp_path}/asked',
        "apt-cache": "",
        "dpkg": "echo amd64",
        "dpkg-deb": "",
        "id": f"echo {user}",
    }
    for name, script in (programs | ({verifier: ""} if verifier else {})).items():
        (tmp_path / name).write_text(f"#!/bin/sh\n{script}\n")
        (tmp_path / name).chmod(0o755)
    for name in ("bash", "sed", "grep", "head"):
        (tmp_path / name).symlink_to(shutil.which(name) or name)

    done = subprocess.run(
        [tmp_path / "bash", ROOT / "lab" / "pool" / "install-private.sh", tmp_path / "prefix", "condor", "x"],
        env={"PATH": str(tmp_path)},
        capture_output=True,
        text=True,
    )

    assert done.returncode == 1
    assert ("neither gpgv nor sqv" in done.stderr) == refused
    asked = (tmp_path / "asked").read_text() if (tmp_path / "asked").exists() else ""
    assert ("--no-install-recommends gpgv" in asked) == (not verifier and user == "0")
