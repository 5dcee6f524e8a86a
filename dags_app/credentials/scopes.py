"""Scopes and renewal of the token of a workflow. Pure.

A token reads the directories of the workflow's input, secondary input included, and its own outputs. It
writes to the workflow's own unmerged directories and to the directories of its merged datasets. Paths are
LFNs: a storage maps them below its own base path.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from dags_app.planning import names
from wms2_project.errors import PermanentError

READ, MODIFY = "storage.read", "storage.modify"  # modify includes create, overwrite, rename and delete
MAX_INPUT_DIRECTORIES = 10  # each costs about 100 bytes of a token, which travels in a header
MIN_DEPTH = 3  # /store/<kind>/<era>: directories are never merged into anything wider
RENEW_BELOW, EXPIRING_BELOW, STOP_BELOW = 0.5, 0.25, 0.125  # shares of the lifetime


class InputTooScattered(PermanentError):
    """The input lies in too many directories for one token."""

    code = "input_too_scattered"


def build_scopes(
    *,
    workflow_id: str,
    input_directories: Iterable[str],
    output_datasets: Sequence[str],
    merged_base: str,
    unmerged_base: str,
) -> list[str]:
    """Return the scopes of the workflow's token, sorted."""
    own = [
        directory
        for dataset in output_datasets
        for directory in (
            names.dataset_directory(merged_base, dataset),
            f"{names.dataset_directory(unmerged_base, dataset)}/{workflow_id}",
        )
    ]
    inputs = collapse_directories(input_directories, limit=MAX_INPUT_DIRECTORIES)
    read = {f"{READ}:{directory}" for directory in (*inputs, *own)}
    return sorted(read | {f"{MODIFY}:{directory}" for directory in own})


def collapse_directories(directories: Iterable[str], *, limit: int) -> list[str]:
    """Return at most `limit` directories that contain all the given ones, as deep as possible.

    The deepest are replaced by their parents until few enough are left. Raises InputTooScattered if that
    would open a directory of less than MIN_DEPTH parts.
    """
    found = _outermost(directories)
    while len(found) > limit:
        deepest = max(directory.count("/") for directory in found)
        if deepest <= MIN_DEPTH:
            raise InputTooScattered(
                f"the input lies in {len(found)} directories such as {found[0]}, a token opens {limit}",
                cure="Split the request into several with fewer input datasets each",
            )
        found = _outermost(
            directory.rpartition("/")[0] if directory.count("/") == deepest else directory
            for directory in found
        )
    return found


def _outermost(directories: Iterable[str]) -> list[str]:
    """Return the directories that are not inside another one, sorted."""
    kept: list[str] = []
    for directory in sorted(set(directories), key=lambda one: one.split("/")):
        if not kept or not f"{directory}/".startswith(f"{kept[-1]}/"):
            kept.append(directory)
    return kept


@dataclass(frozen=True, slots=True)
class TokenLife:
    """End of a token (None: there is no token) and its total lifetime."""

    expires_at: datetime | None
    lifetime_sec: int

    def is_due(self, now: datetime) -> bool:
        """Return whether to renew the token. Half of its lifetime is left for the renewal to succeed."""
        return self._share_left(now) < RENEW_BELOW

    def is_expiring(self, now: datetime) -> bool:
        """Return whether the token ends too soon to submit jobs. Then its renewal has been failing."""
        return self._share_left(now) < EXPIRING_BELOW

    def _share_left(self, now: datetime) -> float:
        if self.expires_at is None or self.lifetime_sec <= 0:
            return 0.0
        return (self.expires_at - now) / timedelta(seconds=self.lifetime_sec)
