"""Sites where the groups of a DAG may land: drains, bans and site lists change while it runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from dags_app.failures.records import CREDITED, bad_copies, failed_sites
from dags_app.failures.recovery import common_sites
from dags_app.models import DAG, InputFile
from dags_app.planning.types import SitePool
from dags_app.services.decisions import decided_numbers
from dags_app.states import IN_QUEUE, FileState, RoundKind
from sandbox.elect_site import elected_site


@dataclass(frozen=True, slots=True)
class Landings:
    """The unfinished groups of a DAG: those that have landed, and where the others may land."""

    landed: Mapping[str, str]  # group → its site
    waiting: Mapping[str, frozenset[str]]  # group → sites

    @property
    def stranded(self) -> list[str]:
        """The groups that wait because no site is usable for them."""
        return sorted(group for group, sites in self.waiting.items() if not sites)


def find_landings(*, dag: DAG, sites: SitePool) -> Landings:
    """Return the site of every unfinished group, or the sites with all its files and the memory."""
    directory, files, bad = Path(dag.submit_dir), files_by_group(dag), bad_copies(workflow=dag.workflow)
    fitting = frozenset(usable_now(dag=dag, sites=sites))
    if dag.round.kind == RoundKind.PILOT:  # leave sites where it failed, if there are others
        fitting = fitting - failed_sites(workflow=dag.workflow, kind=RoundKind.PILOT) or fitting
    landed: dict[str, str] = {}
    waiting: dict[str, frozenset[str]] = {}
    for group in dag.round.groups.exclude(status__in=CREDITED).order_by("index"):
        if dag.round.kind == RoundKind.PULL:
            waiting[group.name] = fitting
            continue
        if site := elected_site(directory / group.name):
            landed[group.name] = site
            continue
        read = {
            file.lfn: sites.reading(frozenset(file.locations))
            for file in files.get(group.index, ())
            if file.state != FileState.EXCLUDED
        }
        waiting[group.name] = common_sites(bad.choose_all(read, within=fitting), within=fitting)
    return Landings(landed=landed, waiting=waiting)


def usable_now(*, dag: DAG, sites: SitePool) -> list[str]:
    """Return the usable sites that offer the memory of the DAG's jobs, by name."""
    cores = dag.round.estimate.get("cores", dag.workflow.cores)
    return sorted(sites.offering(memory_mb(dag) / cores))


def memory_mb(dag: DAG) -> int:
    """Return the memory of the DAG's jobs: as planned or, in a further DAG, as decided by operators."""
    planned = int(dag.round.estimate.get("memory_mb") or dag.workflow.memory_mb)
    as_planned = dag.parent_id is None and dag.status in IN_QUEUE
    return planned if as_planned else int(decided_numbers(dag.workflow).get("memory_mb", planned))


def files_by_group(dag: DAG) -> dict[int, list[InputFile]]:
    """Return the input files that each group was planned to read, without those that are done."""
    found: dict[int, list[InputFile]] = {}
    held = dag.round.files.filter(state__in=[FileState.ASSIGNED, FileState.EXCLUDED])
    columns = ("lfn", "state", "locations", "first_group", "last_group")
    for file in held.only(*columns).iterator(chunk_size=5000):
        for index in range(file.first_group or 0, (file.last_group or 0) + 1):
            found.setdefault(index, []).append(file)
    return found
