"""Failure of a job: the CMS exit code for its report, and the exit status of the process."""

from __future__ import annotations

from collections.abc import Sequence

BAD_ARGUMENTS = 70
SCRAM_PROJECT = 71
SCRAM_ENTER = 72
SCRAM_RUNTIME = 73
SANDBOX_BROKEN = 74
BAD_CONFIGURATION = 7002
OUT_OF_MEMORY = 8004
FILE_OPEN = 8020
FILE_READ = 8021
FILE_CORRUPT = 8022
LOCAL_WRITE = 8033
NO_SOFTWARE = 11003
EXECUTABLE_MISSING = 50110
NO_VALID_FJR = 50115
SCRAM_SETUP = 50513
MEMORY_LIMIT = 50660
DISK_LIMIT = 50662
WALL_TIME = 50664
HANGING = 50665
NOT_SUBMITTED = 50666
OUTPUT_TOO_LARGE = 50668
WRAPPER_KILL = 50669
OUTPUT_MISSING = 60302
STAGE_OUT = 60307
NO_STORAGE = 60315
STAGE_OUT_TIMEOUT = 60317
STORAGE_DOWN = 60321
NOT_AUTHORISED = 60322
QUOTA = 60323
REPORT_UNUSABLE = 60450
MANIFEST_MISSING = 71104
MANIFEST_UNUSABLE = 71105
UNCAUGHT = 99109
REPORT_LOST = 99303
LUMI_TOO_LONG = 99305
CLAIM_REFUSED = 99310
CREDENTIAL_EXPIRED = 99311
NO_SERVER = 99312
CALL_REFUSED = 99313
REMOVED = 99400
FRAMEWORK_CODES = range(7000, 9000)  # of cmsRun itself
STAGE_OUT_CODES = range(60300, 60500)  # reserved by CMS
# Source of a failure. A payload chooses its exit code and report, but not those of the wrapper or HTCondor.
PAYLOAD, WRAPPER, HTCONDOR = "payload", "wrapper", "htcondor"
SOURCES = frozenset({PAYLOAD, WRAPPER, HTCONDOR})


class JobFailure(Exception):
    """The job cannot do what was planned; `bad_inputs` are the input files to blame, if any are.

    `source` is WRAPPER only for what the payload cannot bring about.
    """

    def __init__(
        self, code: int, message: str, *, bad_inputs: Sequence[str] = (), source: str = PAYLOAD
    ) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.bad_inputs = tuple(bad_inputs)
        self.source = source


class Terminated(BaseException):
    """A signal requested the end of the job. Not an Exception, so that no error handler catches it."""

    def __init__(self, signal_number: int) -> None:
        super().__init__(signal_number)
        self.signal_number = signal_number


def steps_of(code: int) -> dict[str, int]:
    """Return the exit code of each step: the framework's, and the stage-out's if the code is of that kind."""
    if code in STAGE_OUT_CODES:
        return {"cmsRun1": 0, "stageOut1": code}
    return {"cmsRun1": code}


def process_exit(code: int) -> int:
    """Return the exit status of a code: its low 8 bits, as a shell does, but never 0 for a failure."""
    if code == 0:
        return 0
    return code % 256 or 1
