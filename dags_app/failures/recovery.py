"""Recovery of a DAG that ended with failures: rescue or hold, and the repair of each group. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from textwrap import shorten
from typing import Any

from dags_app.failures.clusters import RoundFailures, bad_files_of, build_clusters, counts_of
from sandbox.exitcodes import fault_of

MAX_SAMPLES = 5
MAX_EXAMPLE = 120


@dataclass(frozen=True, slots=True)
class Rescue:
    """Submit the same DAG again; DAGMan skips what is done."""

    reason: str


@dataclass(frozen=True, slots=True)
class Hold:
    """Wait for an operator's decision, with this evidence."""

    reason: str
    evidence: dict[str, Any] = field(default_factory=dict)


def decide_recovery(
    *, failures: RoundFailures, rescues: int, hold_threshold: float, max_rescues: int
) -> Rescue | Hold:
    """Rescue while few groups fail and rescues are left; otherwise hold. Never fail a request.

    Groups count, not jobs; rescues after failures count, resumes after stops do not.
    """
    failed = len(failures.failed_groups)
    ratio = failed / failures.groups if failures.groups else 1.0
    summary = f"{failed} of {failures.groups} groups failed ({ratio:.0%})"
    evidence = build_evidence(failures, ratio=ratio, rescues=rescues)
    if failures.proof:
        return Hold(f"the DAG was aborted: {failures.proof}", evidence)
    if ratio >= hold_threshold:
        return Hold(headline(f"{summary}, the limit is {hold_threshold:.0%}", failures), evidence)
    if rescues >= max_rescues:
        return Hold(headline(f"{summary} after {rescues} rescues", failures), evidence)
    return Rescue(f"{summary}; rescue {rescues + 1} of {max_rescues}")


def headline(summary: str, failures: RoundFailures) -> str:
    """Append the most common cause to the sentence."""
    clusters = build_clusters(failures)
    if not clusters:
        return summary
    where = f" at {clusters[0].site}" if clusters[0].site else ""
    example = shorten(clusters[0].example, MAX_EXAMPLE, placeholder="…")
    return f"{summary}; most often {clusters[0].exit_code}{where}{f': {example}' if example else ''}"


def build_evidence(failures: RoundFailures, *, ratio: float, rescues: int) -> dict[str, Any]:
    """Return the evidence of a round's failures for an operator, bounded in size."""
    bad = bad_files_of(failures)
    return {
        "failure_ratio": round(ratio, 4),
        "groups": failures.groups,
        "failed_groups": list(failures.failed_groups[:100]),
        "rescues": rescues,
        "proof": failures.proof,
        "counts": counts_of(failures),
        "bad_files": [{"lfn": lfn, "sites": sorted(bad[lfn])} for lfn in sorted(bad)[:100]],
        "samples": [
            {
                "node": cluster.node,
                "site": cluster.site,
                "exit_code": cluster.exit_code,
                "fault": fault_of(cluster.exit_code).value,
                "message": cluster.example,
                "log_tail": cluster.log_tail,
            }
            for cluster in build_clusters(failures)[:MAX_SAMPLES]
        ],
    }


@dataclass(frozen=True, slots=True)
class Blame:
    """A file that could not be read: where, where it is corrupt, and which sites have a copy."""

    sites: frozenset[str]
    corrupt: frozenset[str]
    holders: frozenset[str]  # usable now or not

    @property
    def lost(self) -> bool:
        """Whether every copy is proved corrupt; an unreachable copy may come back."""
        return bool(self.corrupt) and self.holders <= self.corrupt


@dataclass(frozen=True, slots=True)
class BrokenGroup:
    """A group that is not done: what it reads, where it may run now, and what is known to be bad.

    `files` has the usable sites of each input file; a generating group has none. `bad` has the files its
    jobs could not read, `read` those of which its finished jobs have read something.
    """

    name: str
    fitting: frozenset[str]  # usable sites that offer the memory
    elected: str = ""
    files: Mapping[str, frozenset[str]] = field(default_factory=dict)
    bad: Mapping[str, Blame] = field(default_factory=dict)
    read: frozenset[str] = frozenset()
    shared: frozenset[str] = frozenset()  # files that other groups read too
    gone: frozenset[str] = frozenset()  # files excluded since it was planned
    lost_inputs: bool = False  # the merge misses outputs of its jobs
    failed_at: frozenset[str] = frozenset()  # sites to leave if there is another


@dataclass(frozen=True, slots=True)
class Repair:
    """Repair of a group: the sites where it continues, whether it starts again, and the files to drop."""

    group: str
    sites: frozenset[str]
    restart: bool = False
    excluded: Mapping[str, str] = field(default_factory=dict)  # file → reason
    set_aside: tuple[str, ...] = ()  # files that a later round reads at another site
    gone: frozenset[str] = frozenset()
    emptied: bool = False  # no input is left

    @property
    def dropped(self) -> frozenset[str]:
        """All files that the group no longer reads."""
        return self.gone | frozenset(self.excluded) | frozenset(self.set_aside)

    @property
    def homeless(self) -> bool:
        """Whether there is work but no site for it."""
        return not self.sites and not self.emptied


def decide_repair(group: BrokenGroup) -> Repair:
    """Stay at the elected site if possible, else start again where every file can be read.

    A file that failed moves to a site with another copy: with its group if the group can follow, else alone
    in a later round. Only a file whose every copy is corrupt is excluded.
    """
    if not group.files and not group.gone:
        return _settled(group, group.fitting, {}, frozenset())
    excluded = {
        lfn: f"could not be read at {', '.join(sorted(blame.sites))}, and no other site has it"
        for lfn, blame in sorted(group.bad.items())
        if blame.lost
    }
    readable = {
        lfn: sites - group.bad[lfn].sites if lfn in group.bad else sites
        for lfn, sites in group.files.items()
        if lfn not in excluded
    }
    aside = _in_the_way(group, readable)
    rest = {lfn: sites for lfn, sites in readable.items() if lfn not in aside}
    if not rest:
        return Repair(
            group.name, frozenset(), False, excluded, tuple(sorted(aside)), group.gone, emptied=True
        )
    return _settled(group, common_sites(rest, within=group.fitting), excluded, aside)


def _in_the_way(group: BrokenGroup, readable: Mapping[str, frozenset[str]]) -> frozenset[str]:
    """Return the smallest set of failed files without which the other files have a common site."""
    every = frozenset(group.bad) & frozenset(readable) - group.shared
    here = frozenset(lfn for lfn in every if group.elected in group.bad[lfn].sites)
    for aside in (frozenset[str](), here):
        rest = {lfn: sites for lfn, sites in readable.items() if lfn not in aside}
        if common_sites(rest, within=group.fitting):
            return aside
    return every


def common_sites(files: Mapping[str, frozenset[str]], *, within: frozenset[str]) -> frozenset[str]:
    """Return the sites that read all of these files."""
    found = within
    for sites in files.values():
        found &= sites
    return found


def _settled(
    group: BrokenGroup, sites: frozenset[str], excluded: Mapping[str, str], aside: frozenset[str]
) -> Repair:
    sites = sites - group.failed_at or sites
    moves = bool(group.elected) and group.elected not in sites
    # Otherwise events that finished jobs read of a file would be merged and read again by the later round.
    restart = group.lost_inputs or moves or bool(group.read & aside)
    return Repair(group.name, sites, restart, excluded, tuple(sorted(aside)), group.gone)
