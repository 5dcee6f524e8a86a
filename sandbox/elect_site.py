"""POST of a group's landing node: the site where it ran becomes the site of the whole group.

`elect_site <node> <return> <jobid>` runs in the group directory and reads the site from the event log.
"""

import os
import sys

if __package__ in (None, ""):
    sys.path[0] = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))

from collections.abc import Sequence
from pathlib import Path

from sandbox import names
from sandbox.atomic import replacing
from sandbox.limits import FILE as RAISED_LIMITS
from sandbox.userlog import read_job_events

EVENT_LOG = "group.dag.nodes.log"
ELECTED_SITE = "elected_site.inc"
LANDING_SITES = "../landing_sites"  # see landing.sh
REPORTS = "reports"  # initial directory of the group's other jobs, to which they return files


def main(arguments: Sequence[str]) -> int:
    """Return 0 if a site was elected; any other value makes DAGMan retry the landing."""
    if len(arguments) != 3:
        sys.stderr.write("usage: elect_site <node> <return> <jobid>\n")
        return 1
    _, status, job_id = arguments
    if status != "0":
        sys.stderr.write(f"landing {job_id} ended with {status[:40]}: no site elected\n")
        return 1
    site = read_job_events(Path(EVENT_LOG), job_id).site
    if not names.matches(names.SITE, site):
        sys.stderr.write(f"landing {job_id}: {EVENT_LOG} names no legal site for it, found {site!r:.80}\n")
        return 1
    if not _may_be_used(site):
        sys.stderr.write(f"landing {job_id}: {site} may not be used any more; retrying at another site\n")
        return 1
    with open(RAISED_LIMITS, "ab"):  # a restarted group keeps the raised limits of its nodes
        pass
    # Created only for groups that land: writing a DAG with a directory more per group takes longer.
    Path(REPORTS).mkdir(exist_ok=True)
    with replacing(Path(ELECTED_SITE)) as handle:
        handle.write(f"elected_site = {site}\n".encode("ascii"))
    return 0


def elected_site(group: Path) -> str:
    """Return the site that the group was pinned to; '' if it has not landed."""
    try:
        with open(group / ELECTED_SITE, encoding="ascii") as handle:
            site = handle.read(200).rpartition("=")[2].strip()
    except (OSError, UnicodeDecodeError):
        return ""
    return site if names.matches(names.SITE, site) else ""


def _may_be_used(site: str) -> bool:
    """Return whether the site is still allowed: sites may change while the landing runs."""
    group = Path.cwd().name
    try:
        with open(LANDING_SITES, encoding="ascii") as lines:
            listed = next((line.split()[1] for line in lines if line.startswith(f"{group} ")), site)
    except FileNotFoundError:
        return True
    return site in listed.split(",")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
