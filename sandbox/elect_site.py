"""POST of a group's landing node: the site where it ran becomes the site of the whole group.

`elect_site <node> <return> <jobid>` in the group directory; the event log names the site, no schedd is asked.
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
REPORTS = "reports"  # where the group's other jobs start, and what they send back lands


def main(arguments: Sequence[str]) -> int:
    """0 = elected; anything else makes DAGMan try the landing again."""
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
        sys.stderr.write(f"landing {job_id}: {site} may not be used any more, it is tried again elsewhere\n")
        return 1
    with open(RAISED_LIMITS, "ab"):  # a group that starts over keeps what it learnt about its nodes
        pass
    # Made here, for groups that get so far: a DAG has many, and every directory costs when it is written.
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
    """The sites may have changed between the submission of the landing and its end."""
    group = Path.cwd().name
    try:
        with open(LANDING_SITES, encoding="ascii") as lines:
            listed = next((line.split()[1] for line in lines if line.startswith(f"{group} ")), site)
    except FileNotFoundError:
        return True
    return site in listed.split(",")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
