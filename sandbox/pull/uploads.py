"""Outputs of runners on storage: their upload, and the removal of those that do not count."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from sandbox.context import Context
from sandbox.failure import STORAGE_DOWN, WRAPPER, JobFailure
from sandbox.pull.jobscript import Made
from sandbox.storage import PART_MARK, StorageError


def upload(context: Context, made: Made, offered: Mapping[str, Any]) -> str:
    """Copy an output to the first storage that takes it, with several tries each; return its site."""
    problems = []
    for site in offered["sites"]:
        for prefix in _prefixes(context, site):
            try:
                context.storage.put(made.path, f"{prefix}{offered['lfn']}", adler32=made.adler32)
            except StorageError as error:
                problems.append(f"{site}: {error.message}")
            else:
                return str(site)
    message = f"StageOutFailure: {made.name}: {'; '.join(problems) or 'no storage was offered'}"
    raise JobFailure(STORAGE_DOWN, message, source=WRAPPER)


def remove_uploads(context: Context, outputs: Iterable[Mapping[str, Any]]) -> list[str]:
    """Delete outputs and what an interrupted upload left of them; return the LFNs that are on no storage now.

    It is unknown to which of the offered storages an output was uploaded, so it is deleted from all of them.
    """
    names: dict[str, list[str]] = {}
    removed = []
    for output in outputs:
        try:
            for site in output["sites"]:
                for prefix in _prefixes(context, site):
                    _remove(context, f"{prefix}{output['lfn']}", names)
        except StorageError:
            continue
        removed.append(str(output["lfn"]))
    return removed


def _remove(context: Context, url: str, names: dict[str, list[str]]) -> None:
    """Delete a file and its incomplete copies. `names` keeps the lists of directories."""
    directory, _, name = url.rpartition("/")
    if directory not in names:
        names[directory] = [entry.name for entry in context.storage.list(directory)]
    for found in names[directory]:
        if found.startswith(f"{name}{PART_MARK}"):
            context.storage.delete(f"{directory}/{found}")
    context.storage.delete(url)


def _prefixes(context: Context, site: str) -> tuple[str, ...]:
    """Return the prefix to which outputs are uploaded at the site, if there is one."""
    return context.places.prefixes(site)[:1] if context.places is not None else ()
