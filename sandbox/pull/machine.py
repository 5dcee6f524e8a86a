"""Facts about the slot from HTCondor: its site and name, the job's id and the remaining time."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from sandbox import names
from sandbox.failure import BAD_ARGUMENTS, JobFailure

_ATTRIBUTE = re.compile(r"([A-Za-z_][A-Za-z0-9_]*) = (.*)")
DEFAULT_SEC = 3600
_STRANGE = re.compile(r"[^A-Za-z0-9_.@:-]")


@dataclass(frozen=True)
class Slot:
    """A slot of the pool, and the job in it."""

    site: str
    name: str
    job_id: str
    ends_at: float  # by the clock of this machine

    @property
    def seconds_left(self) -> int:
        return max(0, int(self.ends_at - time.time()))


def read_slot(environment: Mapping[str, str] = os.environ) -> Slot:
    """Read the ads that HTCondor puts beside a job. Raises JobFailure if they name no site."""
    machine = _read_ad(environment.get("_CONDOR_MACHINE_AD", ""))
    job = _read_ad(environment.get("_CONDOR_JOB_AD", ""))
    site = machine.get("GLIDEIN_CMSSite", "")
    if not names.matches(names.SITE, site):
        raise JobFailure(
            BAD_ARGUMENTS, f"{site!r:.80} in the machine ad is not a site name such as T2_CH_CERN"
        )
    minutes = job.get("MaxWallTimeMins", "")
    seconds = int(minutes) * 60 if minutes.isdigit() and len(minutes) < 9 else DEFAULT_SEC
    return Slot(
        site=site,
        name=_STRANGE.sub("_", machine.get("Name", ""))[:200],
        job_id=f"{job.get('ClusterId', '0')}.{job.get('ProcId', '0')}"[:100],
        ends_at=time.time() + seconds,
    )


def _read_ad(path: str) -> dict[str, str]:
    """Return the attributes of an ad; texts without their quotes."""
    try:
        lines = Path(path).read_text("utf-8", "replace").splitlines() if path else []
    except OSError:
        return {}
    found = (_ATTRIBUTE.fullmatch(line) for line in lines)
    return {match[1]: match[2].strip('"') for match in found if match}
