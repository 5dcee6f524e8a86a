"""Initial content: sites, storages, and the Rucio account."""

from __future__ import annotations

import os
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class KnownRse:
    """A storage, the processing site that reads from it, and its attributes for RSE expressions."""

    name: str
    site: str
    kind: str
    tier: str
    country: str


RSES = (
    KnownRse("T1_US_FNAL_Disk", "T1_US_FNAL", "DISK", "1", "US"),
    KnownRse("T1_US_FNAL_Tape", "T1_US_FNAL", "TAPE", "1", "US"),
    KnownRse("T2_CH_CERN", "T2_CH_CERN", "DISK", "2", "CH"),
    KnownRse("T2_DE_DESY", "T2_DE_DESY", "DISK", "2", "DE"),
    KnownRse("T2_US_Purdue", "T2_US_Purdue", "DISK", "2", "US"),
)
SITE_OF_RSE = {rse.name: rse.site for rse in RSES}
SECRET_VARIABLE = "WMS2_LAB_RUCIO_PASSWORD"  # noqa: S105 - the name of it, not the thing


@dataclass(frozen=True, slots=True)
class Credentials:
    """The Rucio account of the lab."""

    account: str = "wms2"
    username: str = "wms2"
    password: str = field(default="wms2-lab", repr=False)


def credentials_from_environment() -> Credentials:
    """Return the account with the password created at the start of the lab."""
    return Credentials(password=os.environ.get(SECRET_VARIABLE) or Credentials().password)
