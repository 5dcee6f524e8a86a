"""Runs a program of the request: words without a shell, its environment, its end as a failure."""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Mapping
from typing import Any

from sandbox.context import Context
from sandbox.failure import BAD_CONFIGURATION, EXECUTABLE_MISSING, JobFailure
from sandbox.tree import Payload

MAX_VARIABLES, MAX_VALUE = 100, 4096
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,99}", re.ASCII)
_RESERVED = ("WMS2_", "_CONDOR_", "BEARER_TOKEN", "X509_")


def parse_words(value: object, field: str) -> list[str]:
    """Return a command of a payload_config. Raises JobFailure unless it is a list of words."""
    words = isinstance(value, list) and all(isinstance(word, str) and "\0" not in word for word in value)
    if not words or not value or not value[0]:  # type: ignore[index]
        raise JobFailure(BAD_CONFIGURATION, f"payload: {field}: {value!r:.80} is not a list of words")
    return list(value)  # type: ignore[call-overload, no-any-return]


def parse_environment(payload: Mapping[str, Any]) -> dict[str, str]:
    """Return the variables of `environment`. Raises JobFailure for a name or value that is not allowed."""
    given = payload.get("environment") or {}
    if not isinstance(given, dict) or len(given) > MAX_VARIABLES:
        raise _refused("environment", given, f"an object of at most {MAX_VARIABLES} variables")
    for name, value in given.items():
        if not _NAME.fullmatch(name) or name.startswith(_RESERVED):
            expected = f"a variable name of letters, digits and '_' that does not begin with {_RESERVED}"
            raise _refused("environment", name, expected)
        if not isinstance(value, str) or len(value) > MAX_VALUE or "\0" in value:
            raise _refused(f"environment: {name}", value, f"a text of at most {MAX_VALUE} characters")
    return dict(given)


def run_program(context: Context, command: list[str], variables: Mapping[str, str]) -> int:
    """Run the command in the work directory to its end and return its status (negative: the signal)."""
    environment = {**os.environ, **parse_environment(context.manifest.payload), **variables}
    try:
        status = context.tree.run(Payload(command, context.work, environment), context.deadline)
    except OSError as error:
        raise _not_started(context, command[0], error) from error
    if status is None:
        raise context.out_of_time(command[0])
    return status


def _not_started(context: Context, program: str, error: OSError) -> JobFailure:
    """Return the failure: of the payload if it lacks its own program, else of the node."""
    own = "/" in program and not os.path.isabs(program)
    broken = isinstance(error, PermissionError) or error.errno == errno.ENOEXEC
    if own and (broken or not (context.work / program).exists()):
        message = f"payload: command: {program}: {error.strerror}; it must be an executable of the tarball"
        return JobFailure(BAD_CONFIGURATION, message)
    return JobFailure(EXECUTABLE_MISSING, f"payload: command: {program}: {error.strerror}")


def failed_with(program: str, status: int, message: str, *, code: int = 0) -> JobFailure:
    """Return the failure of a program that ended with this status; `code` is the code it reported."""
    shown = f"signal {-status}" if status < 0 else f"status {status}"
    reported = code or (128 - status if status < 0 else status)
    return JobFailure(reported, f"{program} ended with {shown}: {message}")


def _refused(field: str, value: object, expected: str) -> JobFailure:
    return JobFailure(BAD_CONFIGURATION, f"payload: {field}: {value!r:.80} is not {expected}")
