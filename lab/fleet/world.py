"""Names and properties in the fleet: people, campaigns, sites and kinds of failures. Pure data."""

from __future__ import annotations

from dataclasses import dataclass

from dags_app.failures.clusters import MEMORY, WALL_TIME

PEOPLE = ("ana", "bruno", "chiara", "dmitri", "elif", "farid", "greta")
OPERATORS = ("olga", "pedro")
GROUPS = ("higgs", "top", "exotica", "muon-pog", "")


@dataclass(frozen=True, slots=True)
class Campaign:
    """A campaign: the names of its datasets, and whether events come from a generator."""

    name: str
    era: str
    primaries: tuple[str, ...]
    tier: str
    release: str
    generates: bool = False
    input_tier: str = "RAW"


CAMPAIGNS = (
    Campaign("Run2031A_Prompt", "Run2031A", ("Muon0", "EGamma1", "JetMET0", "Tau"), "AOD", "CMSSW_20_0_1"),
    Campaign("Run2030_ReReco", "Run2030D", ("Muon1", "DisplacedJet", "BTagMu"), "MINIAOD", "CMSSW_19_1_4"),
    Campaign(
        "Phase2Fall30_GS",
        "Phase2Fall30",
        ("ZToMuMu_M-50", "TTTo2L2Nu", "GluGluHToZZTo4L"),
        "GEN-SIM",
        "CMSSW_18_0_9",
        generates=True,
    ),
    Campaign(
        "Run3Winter30_DR",
        "Run3Winter30",
        ("DYto2L", "WtoLNu"),
        "AODSIM",
        "CMSSW_19_0_2",
        input_tier="GEN-SIM",
    ),
)


@dataclass(frozen=True, slots=True)
class Place:
    """A site of the fleet: slots (cores), the fraction in use, and how often jobs fail there."""

    name: str
    slots: int
    busy: float
    failing: float = 0.01
    storage_used: float = 0.6


PLACES = (
    Place("T1_US_FNAL", 12_000, 0.93, storage_used=0.71),
    Place("T1_DE_KIT", 7_600, 0.88, storage_used=0.82),
    Place("T1_IT_CNAF", 6_400, 0.9, storage_used=0.66),
    Place("T1_UK_RAL", 5_200, 0.81, storage_used=0.58),
    Place("T2_CH_CERN", 9_800, 0.95, storage_used=0.77),
    Place("T2_DE_DESY", 4_400, 0.9, storage_used=0.93),
    Place("T2_US_Purdue", 4_100, 0.62, failing=0.34, storage_used=0.49),
    Place("T2_US_Nebraska", 3_900, 0.87, storage_used=0.61),
    Place("T2_IT_Legnaro", 2_600, 0.79, storage_used=0.7),
    Place("T2_ES_CIEMAT", 1_900, 0.4, storage_used=0.55),
    Place("T2_FR_GRIF", 2_800, 0.0, storage_used=0.52),
    Place("T2_BR_SPRACE", 1_200, 0.55, failing=0.12, storage_used=0.97),
)
BANNED, DRAINING, MAINTENANCE = "T2_US_Purdue", "T2_ES_CIEMAT", "T2_FR_GRIF"


@dataclass(frozen=True, slots=True)
class Failure:
    """A kind of failure: its code, step and message, and the site it belongs to, if any."""

    exit_code: int
    category: str
    step: str
    message: str
    site: str = ""
    resource: str = ""
    limit: str = "3 attempts"


FAILURES = (
    Failure(
        8020, "data", "cmsRun1",
        "FileOpenError: Failed to open the file 'davs://xrootd.purdue.edu/store/…': permission denied",
        site=BANNED,
    ),
    Failure(
        60311, "infrastructure", "stageOut1", "HTTP 507 Insufficient Storage while writing the output file",
        site="T2_BR_SPRACE",
    ),
    Failure(
        50660, "permanent", "cmsRun1", "Job exceeded its memory: 3912 MB of 3000 MB", resource=MEMORY,
        limit="memory ceiling",
    ),
    Failure(
        50664, "permanent", "cmsRun1", "Job exceeded its wall time of 172800 s", resource=WALL_TIME,
        limit="wall time ceiling",
    ),
    Failure(8001, "permanent", "cmsRun1", "StdException: vector::_M_range_check in module 'PFRecHit'"),
    Failure(8021, "data", "cmsRun1", "FileReadError: the checksum of basket 41 does not match"),
    Failure(11003, "infrastructure", "setup", "no CVMFS at bootstrap: /cvmfs/cms.cern.ch", site="T1_UK_RAL"),
)  # fmt: skip
LOG_TAIL = """Begin processing the 1201st record. Run 382010, Event 88213345, LumiSection 112 on stream 0
%MSG-w TooManySeeds: PixelTripletSeeds 18-Nov-2031 02:11:40 UTC Run: 382010
----- Begin Fatal Exception -----------------------------------
An exception of category '{category}' occurred while
   [0] Processing  Event run: 382010 lumi: 112 event: 88213345 stream: 0
   [1] Running path 'RECOoutput_step'
Exception Message:
{message}
----- End Fatal Exception -------------------------------------
exit code {exit_code}
"""
HOLDS = (
    "{percent} % of the jobs failed, more than the limit of 20 %: {message}",
    "6 output blocks failing since 2 h ago: Rucio: AccessDenied for account wms2 at {site}",
    "stopped by an operator: waiting for the fixed global tag",
)
