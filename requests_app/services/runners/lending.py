"""Allocation of files to a runner."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from typing import Any
from uuid import UUID

from django.conf import settings

from dags_app.models import InputFile, PlaceSet, Workflow
from dags_app.pull.allocation import Asked, LentFile, lend_files
from dags_app.pull.distances import ANYWHERE, Source
from dags_app.states import RoundStatus, RunnerState
from requests_app.services.runners.calls import (
    CLOSED,
    calling_runner,
    check_lending,
    check_open,
    request_of,
)
from requests_app.services.runners.geography import (
    KEPT_SEC,
    Atlas,
    atlas,
    bad_copies_of,
    cached_workflow,
    sources_for,
    usable_names,
)
from requests_app.states import TERMINAL
from sandbox.lumis import by_run
from wms2_project.errors import Conflict, Gone, ServiceUnavailable
from wms2_project.failpoints import failpoint
from wms2_project.postgresql.prepared import execute_prepared, sql_words
from wms2_project.service_guards import outages

# The site and round of a runner that may be lent files by a new call
_BORROWER = f"""
    SELECT r.site, r.round_id
      FROM dags_app_runner r
      JOIN dags_app_round o ON o.id = r.round_id
      JOIN requests_app_request q ON q.workflow_id = r.workflow_id
     WHERE r.id = %(runner)s AND r.workflow_id = %(workflow)s AND r.state = '{RunnerState.RUNNING}'
       AND r.last_call IS DISTINCT FROM %(call)s
       AND o.status = '{RoundStatus.PLANNED}' AND o.lending_stopped_at IS NULL
       AND q.status NOT IN {sql_words(TERMINAL | CLOSED.keys())}"""  # noqa: S608 - states only
_COLUMNS = tuple("place_set_id" if name == "set_id" else name for name in LentFile._fields)


@dataclass(frozen=True, slots=True)
class Lent:
    """A file that the runner may process; `generate` instead of a place for a counter."""

    lfn: str
    pfn: str
    rse: str
    site: str
    size_bytes: int
    adler32: str
    events: int
    lumis: Mapping[int, Any]
    generate: Mapping[str, Any] | None = None


def allocate(*, workflow_id: UUID, runner_id: UUID, count: int, call: UUID) -> list[Lent]:
    """Lend up to `count` files to the runner. A repeated call returns the files that it lent before.

    Raise Gone if nothing is lent any more, and ServiceUnavailable while Rucio does not answer.
    """
    found = execute_prepared(_BORROWER, {"runner": runner_id, "workflow": workflow_id, "call": call})
    if not found:
        return _repeat(workflow_id=workflow_id, runner_id=runner_id, count=count, call=call)
    site, round_id = found[0]
    workflow = cached_workflow(workflow_id)
    _check_rucio(int(time.monotonic() / KEPT_SEC))
    if site not in usable_names(workflow):
        raise Gone(f"{site} may not be used by this request any more", cure="End the job")
    sources = sources_for(workflow, site)
    avoided = [lfn for lfn, sites in bad_copies_of(workflow).reported.items() if site in sites]
    lent = lend_files(Asked(workflow_id, round_id, runner_id, call, count, sources, avoided))
    failpoint("runner.allocated")
    if lent is None:
        check_open(calling_runner(workflow_id=workflow_id, runner_id=runner_id), request_of(workflow_id))
        raise Gone("the runner has ended", cure="End the job")
    by_set = {source.set_id: source for source in sources}
    return [_described(file, by_set[file.set_id], site, workflow) for file in lent]


@lru_cache(maxsize=1)
def _rucio_outage(_moment: int) -> str:
    return next((one.message for one in outages(settings.REDIS_URL, now=time.time(), services=["rucio"])), "")


def _check_rucio(moment: int) -> None:
    """Raise ServiceUnavailable while calls to Rucio are paused: places of files may be out of date."""
    message = _rucio_outage(moment)
    if message:
        raise ServiceUnavailable(f"Rucio does not answer: {message}", cure="Retry after the time given")


def _repeat(*, workflow_id: UUID, runner_id: UUID, count: int, call: UUID) -> list[Lent]:
    """Return the files that the repeated call lent before. Raise if it is another call: nothing is lent."""
    runner, request = calling_runner(workflow_id=workflow_id, runner_id=runner_id), request_of(workflow_id)
    check_open(runner, request)
    if runner.last_call != call:
        check_lending(runner.round, request)
        raise Conflict("the runner has recorded its outputs", cure="Confirm or abort")
    if runner.last_count != count:
        raise Conflict("allocate was called before with another count", cure="Use a new id for the call")
    rows = InputFile.objects.filter(pk__in=runner.last_lent, runner=runner).values_list(*_COLUMNS)
    files = sorted((LentFile(*row) for row in rows), key=lambda file: runner.last_lent.index(file.id))
    sets = PlaceSet.objects.filter(pk__in={file.set_id for file in files}).values_list("pk", "storages")
    by_set = {source.set_id: source for source in sources_for(runner.workflow, runner.site)}
    for key, storages in sets:
        by_set.setdefault(key, Source(key, 0, tuple(storages)))  # the distance was changed meanwhile
    return [_described(file, by_set[file.set_id], runner.site, runner.workflow) for file in files]


def _described(file: LentFile, source: Source, reader: str, workflow: Workflow) -> Lent:
    known = Lent(
        lfn=file.lfn,
        pfn="",
        rse="",
        site=reader,
        size_bytes=file.size_bytes,
        adler32=file.adler32,
        events=file.events,
        lumis=by_run([(run, first, last) for run, first, last in file.lumis]),
    )
    if source.storages[:1] == (ANYWHERE,):
        return replace(known, generate=_generation(file, workflow))
    bad = bad_copies_of(workflow).reported.get(file.lfn, frozenset())
    rse, site = _place(atlas(), reader, source, bad)
    return replace(known, rse=rse, site=site, pfn=f"{atlas().places.prefixes(site)[0]}{file.lfn}")


def _place(known: Atlas, site: str, source: Source, bad: frozenset[str]) -> tuple[str, str]:
    """Return the storage to read from and the site whose prefix leads there; bad copies come last."""
    places = [(storage, known.source_site(site, storage)) for storage in source.storages]
    return next((one for one in places if one[1] not in bad), places[0])


def _generation(file: LentFile, workflow: Workflow) -> dict[str, Any]:
    first = file.first_event or 1
    return {
        "first_event": first,
        "last_event": first + file.events - 1,
        "first_lumi": file.lumis[0][1],
        "events_per_lumi": max(1, int(workflow.splitting_params.get("events_per_lumi") or file.events)),
        "run": file.lumis[0][0],
        "numbering_from": first,
    }


def as_json(files: list[Lent]) -> dict[str, Any]:
    """Return the answer of allocate."""
    return {"files": [asdict(file) for file in files]}
