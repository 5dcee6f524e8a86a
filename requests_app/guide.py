"""Instructions for each kind of alert and each reason of a hold: one entry each. Pure data.

The console shows the entries and links to them; docs/symptoms.md is written from them
(`manage.py reference`). A test compares them with the code that opens alerts and holds requests.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Entry:
    """One symptom: what it means and what to do, in order."""

    slug: str
    title: str
    meaning: str
    steps: tuple[str, ...]
    gate: str = ""  # of a hold: the gate that its evidence names
    pattern: str = ""  # of a hold: a regular expression that its reason contains


_ALERTS = (
    Entry(
        "credential_expiring", "A credential ends soon",
        "A token, proxy or certificate that WMS2 or its jobs use was not renewed in time.",
        ("Read the subject: job tokens, job proxy, client certificate, service token or Rucio token.",
         "Job tokens: the message has the issuer's error; see “A credential has ended” in docs/operating.md.",
         "Others: replace the file. It is read at the next call; no process is restarted.",
         "Jobs whose token ends fail with 60322: stop their requests first if it cannot be renewed."),
    ),
    Entry(
        "site_banned", "A site is banned for all requests",
        "Several requests banned the site, or an operator did. No new work lands there until the ban ends.",
        ("Open the site's page: its failures by cause and the requests that met them.",
         "Tell the site's admins the exit code and an example.",
         "When it is repaired, lift the ban (site page, Lift ban). Otherwise it expires."),
    ),
    Entry(
        "site_new", "CRIC lists a new site",
        "The site is disabled until an operator decides.",
        ("Enable it, or disable it with a reason of your own: either closes the alert.",),
    ),
    Entry(
        "jobs_held", "Jobs are on hold in HTCondor",
        "HTCondor holds jobs of the request; the message has the first hold reason. They fail after a"
        " while and are retried automatically.",
        ("One site: release with a ban of the site, or ban it for all requests.",
         "Memory or disk: edit the request, or wait; a retry requests more automatically.",
         "A missing credential: see credential_expiring."),
    ),
    Entry(
        "jobs_idle", "Jobs wait too long for a slot",
        "No slot matches the jobs, or the pool is full. The reason is HTCondor's own match analysis.",
        ("Open Why on the request's page: it names the requirement that no slot meets.",
         "Too much memory or too many cores: edit the request. Too few sites: extend its site list.",
         "A full pool: raise the priority, or wait."),
    ),
    Entry(
        "jobs_hanging", "Running jobs make no progress",
        "Their CPU time does not increase, or they run far longer than the others of the request.",
        ("With WMS2_HANG_RETRY they are removed and retried at another slot automatically.",
         "Otherwise remove the job with condor_rm: DAGMan retries it.",
         "Many at one site: ban the site."),
    ),
    Entry(
        "outputs_failing", "Output blocks cannot be registered or moved",
        "DBS, Rucio or a storage refuses a step repeatedly. Nothing is lost: files stay at their source.",
        ("Open Outputs: the failing blocks and stuck rules, with the service's message.",
         "A stuck rule: free space or quota at the destination, or let Rucio's operators repair it.",
         "The step is retried automatically. After six hours the request is held."),
    ),
    Entry(
        "dag_unreadable", "The status of a DAG cannot be read",
        "The status file is missing, damaged or not readable. The last good reading stays valid.",
        ("Check the file system of WMS2_SUBMIT_ROOT: space, mounts, rights.",
         "The DAG continues. Monitoring resumes automatically when the file is readable."),
    ),
    Entry(
        "dag_not_removed", "A DAG of an ended request is still in the queue",
        "The schedd refused to remove it. Its jobs may still run and write files.",
        ("The message has the schedd's refusal.",
         "Remove it with condor_rm, or condor_rm -forcex if DAGMan does not react."),
    ),
    Entry(
        "schedd_unreachable", "A schedd does not answer",
        "Its DAGs stay as last seen, and jobs may still run. Nothing is submitted twice.",
        ("Check the schedd's host. When it answers, everything continues automatically.",
         "Down for long: drain it. Lost for good, with nothing running there: fence it; its DAGs resume"
         " at another schedd."),
    ),
    Entry(
        "no_space", "The submit host has too little space",
        "New DAGs are not written. Requests wait at the gate `space`; running jobs continue.",
        ("Free space on the file systems the message names.",
         "Requests continue automatically within a minute."),
    ),
    Entry(
        "groups_without_site", "Groups have no usable site left",
        "Bans, drains or site lists leave no site for groups that have not started.",
        ("Lift a ban, enable a site, or edit the site list of the request.",
         "The sites of waiting groups are changed in place; nothing has to be restarted."),
    ),
    Entry(
        "stuck_in_queued", "A request has waited for admission for a week",
        "Its priority is too low for the capacity, or a gate blocks it.",
        ("Open Why on its page. Raise its priority, or the admission limit.",),
    ),
    Entry(
        "slow_pilot", "A pilot runs for more than a day",
        "The measuring job has not ended, or waits for a slot.",
        ("Open the DAG's logs. If the estimate is known, stop the request, then release it with"
         " time_per_event_sec: no pilot is run then.",),
    ),
    Entry(
        "slow_dag", "A DAG runs for more than 30 days",
        "The schedd answers and the DAG is in its queue.",
        ("Check its progress and failures. Stop and release the request to plan the rest again.",),
    ),
    Entry(
        "stop_overdue", "A stop takes more than an hour",
        "Jobs or DAGMan did not leave the queue. The removal is repeated automatically.",
        ("See the DAG's jobs in HTCondor. End an unresponsive DAGMan with condor_rm -forcex.",),
    ),
)  # fmt: skip
_HOLDS = (
    Entry(
        "too-many-failures", "Too many jobs failed",
        "More jobs failed than the limit allows, or rescues did not help. Finished groups are kept.",
        ("Open the failures of the request: they are grouped by cause and site, each with a suggestion.",
         "Follow the suggestion: the form opens with its values and shows the effect.",
         "Wrong code or request: fail it. Wrong site: release with a ban. Lost files: release without them."),
        pattern=r"jobs? failed|failures|rescue",
    ),
    Entry(
        "pilot-failed", "The pilot failed twice",
        "The measuring job failed at two sites, or was aborted.",
        ("See its failure and log on the request's page.",
         "Release: the pilot runs again, if possible elsewhere. With time_per_event_sec no pilot is run."),
        pattern=r"the pilot ended|the DAG was aborted",
    ),
    Entry(
        "stopped-by-operator", "Stopped by an operator",
        "An operator stopped the request with “stay held” and gave the reason.",
        ("Ask the operator named in the timeline, then release it.",),
        pattern=r"^stopped by an operator",
    ),
    Entry(
        "dag-removed", "The DAG was removed from the queue",
        "It was removed with condor_rm or with the button of the DAG.",
        ("Release: finished groups are kept and the rest runs again. Abort if it is not wanted.",),
        pattern=r"the DAG was removed|this request has no DAG",
    ),
    Entry(
        "output-check", "A merged file is not what its job reported",
        "Size, checksum, events or lumis on the storage differ from the report. The block is not registered.",
        ("The evidence names each file with both values.",
         "Restore a good copy under the same name and release, or restart the request."),
        gate="output check",
    ),
    Entry(
        "outputs-blocked", "Outputs could not be registered for hours",
        "DBS, Rucio or a storage refused a step for six hours. Jobs that run continue.",
        ("Open Outputs for the service's message. Repair the cause there, then release without changes.",),
        pattern=r"output blocks? failing",
    ),
    Entry(
        "outputs-differ", "The outputs differ between WMS2, DBS and Rucio",
        "A file, block or rule is missing there, or is there twice.",
        ("Run manage.py reconcile NAME to list the differences, with --repair to restore what is missing.",
         "Release the request: it compares again."),
        pattern=r"differences? between the WMS2 database",
    ),
    Entry(
        "no-outputs", "The request produced no output files",
        "Every job succeeded and none wrote an event, or every group was excluded.",
        ("Check the filter and the payload with the requestor. Then fail or restart it.",),
        pattern=r"produced no output files",
    ),
    Entry(
        "ownership", "An output dataset belongs to another request",
        "Two requests name the same dataset, or DBS has it from elsewhere.",
        ("Use another ProcessingVersion, or name the replaced request in PreviousVersionRequest.",
         "If both owners agree: Share outputs, then release."),
        gate="ownership",
    ),
    Entry(
        "no-sites", "No site can run the request",
        "Its site list, bans and closed sites leave none.",
        ("Extend its site list, lift a ban or enable a site. Then release.",),
        gate="sites",
    ),
    Entry(
        "memory", "No site offers the memory",
        "A job needs more memory per core than any usable site declares.",
        ("Edit memory or cores, or the site's memory per core.",),
        gate="memory",
    ),
    Entry(
        "quota", "A quota is exceeded by the request itself",
        "One request needs more jobs or storage than the quota of its requestor or group.",
        ("Raise the quota, or let the requestor split the request.",),
        gate="quota",
    ),
    Entry(
        "low-yield", "Too few generated events pass the filter",
        "The measured filter efficiency is far below the declared one.",
        ("Let the requestor check the generator. Release to continue with the measured efficiency.",),
        pattern=r"generated events passed the filter",
    ),
    Entry(
        "worn-out-files", "Files failed in every round",
        "Input files were tried in several rounds and could not be processed.",
        ("The evidence lists them. Release with excluded_files, or have them repaired and release.",),
        pattern=r"failed in every round",
    ),
    Entry(
        "runners-without-files", "Runners requested files and received none",
        "Pull mode: no file that is left can be read where the runners of the round ran.",
        ("See where the remaining files are and where runners ran. Extend the site list, or replicate them.",
         "Release: a new round starts runners at the usable sites."),
        pattern=r"was lent a file",
    ),
    Entry(
        "nothing-to-plan", "The remaining files give no jobs",
        "They have no lumis, or the request's mask leaves nothing of them.",
        ("Check the lumi mask with the requestor. Release with excluded_files to finish without them.",),
        pattern=r"remaining files give no jobs",
    ),
    Entry(
        "runners-fail", "Too many runners of a pull round failed",
        "The share of failed runners reached the limit; nothing more is lent.",
        ("See the exit codes of the runners by site. Fix the payload or ban the site. Then release.",),
        pattern=r"runners failed",
    ),
    Entry(
        "too-long-in-status", "A step took longer than its limit",
        "Resolving, planning or deciding did not end in time.",
        ("The evidence has the last error. Release when the cause is fixed.",),
        pattern=r"the limit is \d",
    ),
    Entry(
        "worker-deaths", "Workers died while they processed the request",
        "Three workers in a row were killed, usually for memory.",
        ("See the kernel's log of the worker's host. Give workers more memory, then release.",),
        pattern=r"workers? in a row died",
    ),
    Entry(
        "held", "An error that repeats",
        "A step failed with the same kind of error several times; the reason is its message.",
        ("Read the message and its cure. The input, a configuration or a service is named in it.",
         "Repair the cause, then release. If it is a bug, report it with the request id of the error."),
        pattern=r"",
    ),
)  # fmt: skip
ALERTS: Mapping[str, Entry] = {entry.slug: entry for entry in _ALERTS}
HOLDS: Mapping[str, Entry] = {entry.slug: entry for entry in _HOLDS}


def hold_entry(reason: str, evidence: Mapping[str, Any] | None = None) -> Entry:
    """Return the entry of a hold, by the gate in its evidence or by its reason."""
    gate = str((evidence or {}).get("gate", ""))
    if gate:
        for entry in _HOLDS:
            if entry.gate == gate:
                return entry
    return next(entry for entry in _HOLDS if not entry.gate and re.search(entry.pattern, reason))


def render_guide() -> str:
    """Return docs/symptoms.md."""
    lines = [
        "# Symptoms", "",
        "What to do about each alert and each reason of a hold.",
        "Written by `./wms2 manage reference symptoms`; do not edit.",
        "The console's page *Guide* shows the same, and alerts and held requests link to their entry.", "",
    ]  # fmt: skip
    for title, entries in (("Alerts", _ALERTS), ("Held requests", _HOLDS)):
        lines += [f"## {title}", ""]
        for entry in entries:
            lines += [f"### {entry.slug}", "", f"**{entry.title}.** {entry.meaning}", ""]
            lines += [f"{number}. {step}" for number, step in enumerate(entry.steps, start=1)]
            lines.append("")
    return "\n".join(lines)
