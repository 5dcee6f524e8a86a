"""The lab's pool accepts commands of its owner only: its jobs run as the owner and can read all secrets."""

from __future__ import annotations

import os
import pwd
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.hostile.small_pool import run_tool, running_pool

US = pwd.getpwuid(os.getuid()).pw_name
FS = {"SEC_CLIENT_AUTHENTICATION_METHODS": "FS"}
# FS authentication proves the client's user: for a pool of another user this process is unknown
STRANGERS = {
    "another user": FS,
    "without authentication": {"SEC_CLIENT_AUTHENTICATION": "NEVER"},
    "anonymous": {"SEC_CLIENT_AUTHENTICATION_METHODS": "ANONYMOUS"},
    "who claims to be the owner": {"SEC_CLIENT_AUTHENTICATION_METHODS": "CLAIMTOBE"},
}
COMMANDS = {
    "read the machines": ("condor_status", "-any", "-af", "MyType"),
    "read the queue": ("condor_q", "-all", "-af", "ClusterId"),
    "submit": ("condor_submit", "job.sub"),
    "remove": ("condor_rm", "-all"),
    "stop": ("condor_off", "-addr", "SCHEDD"),
    "configure": ("condor_config_val", "-address", "SCHEDD", "-schedd", "-rset", "MAX_JOBS=1"),
}
NOT_EVEN_THE_OWNER = ("stop", "configure")  # the tests need the pool; no value is set at run time


@pytest.fixture(scope="module")
def pools(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, tuple[Path, str]]]:
    """Yield our pool, and one of another user."""
    homes = {owner: tmp_path_factory.mktemp(f"pool-{owner}") for owner in (US, "daemon")}
    for home in homes.values():
        (home / "job.sub").write_text("executable = /bin/true\nlog = job.log\nqueue\n")
    with (
        running_pool(homes[US], owner=US) as ours,
        running_pool(homes["daemon"], owner="daemon") as theirs,
    ):
        yield {"ours": (homes[US], ours), "theirs": (homes["daemon"], theirs)}


@pytest.mark.parametrize("command", [name for name in COMMANDS if name not in NOT_EVEN_THE_OWNER])
def test_the_owner_may(pools: dict[str, tuple[Path, str]], command: str) -> None:
    home, collector = pools["ours"]
    done = run_tool(home, collector, *COMMANDS[command], settings=FS)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("stranger", STRANGERS)
def test_commands_of_a_stranger_are_refused(
    pools: dict[str, tuple[Path, str]], stranger: str, command: str
) -> None:
    home, collector = pools["theirs" if stranger == "another user" else "ours"]
    done = run_tool(home, collector, *COMMANDS[command], settings=STRANGERS[stranger])
    assert done.returncode != 0, done.stdout
