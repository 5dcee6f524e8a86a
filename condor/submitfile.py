"""Submit descriptions per role; the only place where values are put into submit files.

`quote` refuses characters that could end a value or start a command; the text is then parsed back and must
have exactly the allowed keys with the intended values.

File transfer: a job's initial directory is `<group>/reports` (created by the landing's POST), so the
content of its scratch directory `back/` is returned there. An empty `back` directory is part of the input:
a job that dies at once still has one, and is not held for a missing output.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from condor.layout import check_absolute_path, check_int, check_os, check_path, check_uuid
from condor.types import RenderError
from sandbox.cmssw.config import PSET_NAMES
from sandbox.elect_site import ELECTED_SITE
from sandbox.scram import ANY_OS
from sandbox.usersandbox import NAME as USER_SANDBOX
from wms2_project.grammar import Name, check

PINNED_SITE_INCLUDE = f"include ifexist : {ELECTED_SITE}"
# `memory_<node> = <MB>`, `wall_time_…`, `disk_…` after an attempt that ran out of it. The landing's POST
# writes this file and the one above: DAGMan's direct submission fails on an absent include despite
# "ifexist" (seen in 23.9).
RAISED_LIMITS_INCLUDE = "include : raised.inc"
# `landing_sites = <sites>` if they differ from the plan; the landing's PRE writes it at each submission.
LANDING_SITES_INCLUDE = "include : landing_sites.inc"
PRIORITY_FILE = "priority.inc"
PRIORITY_INCLUDE = f"include ifexist : ../{PRIORITY_FILE}"
# What has begun is finished first: merges and cleanups before processing of any request, and processing that
# is tried again before the first attempts of the same request. Landings come last, so that a group lands
# only where no job of an equal request waits: else every landing would go to the first site with a free slot.
FINISHING_BOOST = 2_000_000
RETRY_BOOST = 1
LANDING_BOOST = -1
BACK_DIRECTORY = "back"
EXECUTABLE = "run.sh"
SANDBOX = "sandbox.tar.gz"
MANIFEST = "jobs.json"
PAYLOAD = "payload.json"  # one for all groups

_FORBIDDEN = re.compile(r"[^\x20-\x7e]|[\"\\$`;|]")
_ASSIGNMENT = re.compile(r"([A-Za-z][A-Za-z0-9_.]*) = (\S|\S.*\S)", re.ASCII)
TOKEN_KEY, PROXY_KEY = "My.OAuthServicesNeeded", "x509userproxy"
TOKEN_SERVICE = "cms"  # noqa: S105 — names the file of a token, and where HTCondor looks for it
_COMMON_KEYS = (
    "universe", "executable", "arguments", "should_transfer_files", "output", "error", "notification",
    "request_cpus", "request_memory", "disk_wanted", "request_disk", "wall_minutes", "wall_sec",
    "allowed_job_duration", "boosted", "priority", "periodic_remove", "ulog_execute_attrs",
    "My.DESIRED_Sites", "My.REQUIRED_OS", "My.MaxWallTimeMins", "My.CMS_RequestName", "My.CMS_WorkflowID",
    "My.CMS_NodeRole", "My.CMS_NodeName",
)  # fmt: skip
_TRANSFER_KEYS = (
    "initialdir", "environment", "when_to_transfer_output", "transfer_input_files", "transfer_output_files",
    "max_transfer_output_mb",
)  # fmt: skip


class Role(StrEnum):
    """Kinds of nodes in a group; the value is the job's argument."""

    LANDING = "landing"
    PROCESSING = "processing"
    MERGE = "merge"
    CLEANUP = "cleanup"
    RUNNER = "runner"

    @property
    def submit_file(self) -> str:
        return "proc.sub" if self is Role.PROCESSING else f"{self.value}.sub"


# Files of the DAG's directory that only jobs of these roles get.
ROLES_OF_FILES: dict[str, frozenset[Role]] = {
    **{name: frozenset({Role.PROCESSING, Role.RUNNER}) for name in PSET_NAMES},
    USER_SANDBOX: frozenset({Role.PROCESSING, Role.RUNNER, Role.MERGE}),
}
ALLOWED_KEYS: dict[Role, frozenset[str]] = {
    Role.LANDING: frozenset((*_COMMON_KEYS, "transfer_executable")),
    **{
        role: frozenset((*_COMMON_KEYS, *_TRANSFER_KEYS, "memory_wanted"))
        for role in (Role.MERGE, Role.CLEANUP)
    },
    **{
        role: frozenset((*_COMMON_KEYS, *_TRANSFER_KEYS, "memory_wanted", "request_gpus"))
        for role in (Role.PROCESSING, Role.RUNNER)
    },
}
PUSH_ROLES = (Role.LANDING, Role.PROCESSING, Role.MERGE, Role.CLEANUP)
PULL_ROLES = (Role.RUNNER,)
# The credential of jobs that use storage; absent where none is configured.
OPTIONAL_KEYS: dict[Role, frozenset[str]] = {
    role: frozenset() if role is Role.LANDING else frozenset((TOKEN_KEY, PROXY_KEY)) for role in Role
}


@dataclass(frozen=True, slots=True)
class SubmitDescription:
    """Values that differ between DAGs. Values that differ between nodes are in VARS of the DAG file."""

    role: Role
    request_name: str
    workflow_id: str
    held_grace_sec: int
    max_transfer_output_mb: int
    gpus: int = 0
    with_token: bool = False  # jobs get the token of their workflow
    job_proxy: str = ""  # absolute path of the X.509 proxy that jobs get
    job_files: Sequence[str] = ()  # shared by all groups
    required_os: str = ANY_OS
    executable: str = EXECUTABLE
    sandbox: str = SANDBOX


def token_file_name(workflow_id: str) -> str:
    """Return the name of the file that holds the workflow's token, in HTCondor's credential directory."""
    return f"{TOKEN_SERVICE}_{_token_handle(workflow_id)}.use"


def _token_handle(workflow_id: str) -> str:
    return check_uuid("workflow_id", workflow_id).replace("-", "")


def goes_to(job_file: str, role: Role) -> bool:
    """Return whether jobs of the role get this file of the DAG's directory."""
    roles = ROLES_OF_FILES.get(job_file)
    return roles is None or role in roles


def quote(value: str) -> str:
    """Return the value as a ClassAd string; refuse quotes, macros, line ends and commands."""
    found = _FORBIDDEN.search(value)
    if found:
        raise RenderError(
            f"{value!r:.80} contains {found.group()!r}, which is not allowed in a submit file",
            cure="Remove the character from the field",
        )
    return f'"{value}"'


def render_submit(description: SubmitDescription) -> str:
    """Render the submit file of a role and check it by parsing it back."""
    intended = _entries(description)
    lines = _includes(description.role)
    lines += [f"{key} = {value}" for key, value in intended.items()]
    lines.append("queue")
    text = "\n".join(lines) + "\n"
    if parse_submit(text, description.role) != intended:
        raise RenderError(f"{description.role.submit_file} does not parse back to the intended values")
    return text


def render_priority(priority: int) -> str:
    """Render the file that sets the priority of all jobs. Each submission reads it."""
    return f"job_priority = {check_int('priority', priority, -1_000_000_000, 1_000_000_000)}\n"


def boost(role: Role | str) -> int:
    """Return by how much the priority of the role's jobs is above that of their request."""
    if role == Role.LANDING:
        return LANDING_BOOST
    return FINISHING_BOOST if role in (Role.MERGE, Role.CLEANUP) else 0


def parse_submit(text: str, role: Role) -> dict[str, str]:
    """Parse a submit file strictly: known keys once each, the includes, one final queue."""
    includes = _includes(role)
    lines = text.split("\n")
    if lines[: len(includes)] != includes or lines[-2:] != ["queue", ""]:
        raise RenderError(f"{role.submit_file} does not begin with its includes or end with one queue")
    found: dict[str, str] = {}
    for line in lines[len(includes) : -2]:
        match = _ASSIGNMENT.fullmatch(line)
        if not match or line.endswith("\\") or not line.isprintable() or not line.isascii():
            raise RenderError(f"{role.submit_file} contains a line that is not an assignment: {line!r:.80}")
        key, value = match.groups()
        if key in found or key not in ALLOWED_KEYS[role] | OPTIONAL_KEYS[role]:
            raise RenderError(f"{role.submit_file} sets {key} twice, or the key is not allowed")
        found[key] = value
    missing = ALLOWED_KEYS[role] - set(found)
    if missing:
        raise RenderError(f"{role.submit_file} lacks {', '.join(sorted(missing))}")
    return found


def _includes(role: Role) -> list[str]:
    own = {
        Role.LANDING: [LANDING_SITES_INCLUDE],
        Role.RUNNER: [LANDING_SITES_INCLUDE, RAISED_LIMITS_INCLUDE],
    }
    return [*own.get(role, [PINNED_SITE_INCLUDE, RAISED_LIMITS_INCLUDE]), PRIORITY_INCLUDE]


def _entries(description: SubmitDescription) -> dict[str, str]:
    role = description.role
    grace = check_int("held_grace_sec", description.held_grace_sec, 0, 1_000_000)
    own = _landing_entries() if role is Role.LANDING else _job_entries(description)
    shared = {
        "notification": "never",
        "request_cpus": "$(CPUS)",
        "disk_wanted": "max({$(DISK), $(disk_$(NODE):0)})",
        "request_disk": "$INT(disk_wanted)",
        # A job that runs too long is held by HTCondor, then removed by the rule below.
        "wall_minutes": "max({$(WALL), $(wall_time_$(NODE):0)})",
        "wall_sec": "$(wall_minutes) * 60",
        "allowed_job_duration": "$INT(wall_sec)",
        "boosted": f"$(job_priority:0) + {boost(role)} + {RETRY_BOOST} * min({{$(RETRY), 1}})",
        "priority": "$INT(boosted)",
        # A held job never reaches POST, so it is removed; unless a person held it (1) or it is spooling (16).
        "periodic_remove": "JobStatus == 5 && HoldReasonCode =!= 1 && HoldReasonCode =!= 16"
        f" && time() - EnteredCurrentStatus >= {grace}",
        "ulog_execute_attrs": "GLIDEIN_CMSSite",
        "My.REQUIRED_OS": quote(check_os("required_os", description.required_os)),
        "My.MaxWallTimeMins": "$INT(wall_minutes)",
        "My.CMS_RequestName": quote(check(Name.REQUEST, description.request_name, field="request_name")),
        "My.CMS_WorkflowID": quote(check_uuid("workflow_id", description.workflow_id)),
        "My.CMS_NodeRole": quote(role.value),
        "My.CMS_NodeName": '"$(NODE)"',
    }
    return {"universe": "vanilla"} | own | shared


def _landing_entries() -> dict[str, str]:
    """Return the entries of the landing, which runs nothing: only its site matters."""
    return {
        "executable": "/bin/true",
        "arguments": "landing $(NODE)",
        "transfer_executable": "false",
        "should_transfer_files": "NO",
        "output": "/dev/null",
        "error": "/dev/null",
        "request_memory": "$(MEM)",
        "My.DESIRED_Sites": '"$(landing_sites:$(SITES))"',
    }


def _job_entries(description: SubmitDescription) -> dict[str, str]:
    role = description.role
    executable = check_path("executable", description.executable)
    sandbox = check_path("sandbox", description.sandbox)
    inputs = [f"../../{sandbox}", f"../{MANIFEST}", f"../../{PAYLOAD}", f"../../{BACK_DIRECTORY}"]
    inputs += [f"../../{check_path('job_files', path)}" for path in description.job_files]
    returned_mb = check_int("max_transfer_output_mb", description.max_transfer_output_mb, 1, 100_000)
    if role in (Role.MERGE, Role.CLEANUP):
        inputs.append("../reports")
    gpus = {"request_gpus": str(check_int("gpus", description.gpus, 0, 64))}
    varying = (gpus if role in (Role.PROCESSING, Role.RUNNER) else {}) | _credential_entries(description)
    return varying | {
        # The executable is found from the group's directory, everything else from its initial directory.
        "executable": f"../{executable}",
        "arguments": f"{role.value} $(NODE) $(elected_site:none)",
        "environment": f'"{_variables(description)}"',
        "initialdir": "reports",
        "should_transfer_files": "YES",
        "when_to_transfer_output": "ON_EXIT",
        "transfer_input_files": ", ".join(inputs),
        "transfer_output_files": f"{BACK_DIRECTORY}/",
        # Reports and logs only: a job that returns more is held, then removed (periodic_remove).
        "max_transfer_output_mb": str(returned_mb),
        "output": "../$(NODE).out",
        "error": "../$(NODE).err",
        # Never less than planned: the plan may have been raised since the file was written.
        "memory_wanted": "max({$(MEM), $(memory_$(NODE):0)})",
        "request_memory": "$INT(memory_wanted)",
        "My.DESIRED_Sites": f'"$({"landing_sites" if role is Role.RUNNER else "elected_site"}:$(SITES))"',
    }


def _variables(description: SubmitDescription) -> str:
    """Return the environment of the job: numbers and the name of its token's file, no secrets."""
    variables = "WMS2_ATTEMPT=$(RETRY) WMS2_MEMORY_MB=$INT(memory_wanted)"
    if description.with_token:
        variables += f" WMS2_TOKEN_FILE={token_file_name(description.workflow_id)}"
    return variables


def _credential_entries(description: SubmitDescription) -> dict[str, str]:
    """Name the credential; HTCondor brings its file to the job, and brings it again when it has changed."""
    entries = {}
    if description.with_token:
        service = f"{TOKEN_SERVICE}*{_token_handle(description.workflow_id)}"
        entries[TOKEN_KEY] = quote(service)
    if description.job_proxy:
        entries[PROXY_KEY] = check_absolute_path("job_proxy", description.job_proxy)
    return entries
