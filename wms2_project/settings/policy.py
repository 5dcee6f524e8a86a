"""Policies that operators set. Each is an environment variable `WMS2_<NAME>`; see docs/settings.md."""

from __future__ import annotations

from django.core.exceptions import ImproperlyConfigured

from wms2_project.settings.environment import LAB, env

# Lifecycle
LEASE_PULSE_SEC = env.int("WMS2_LEASE_PULSE_SEC", default=10)
LEASE_TTL_SEC = env.int("WMS2_LEASE_TTL_SEC", default=30)
SWEEP_BATCH = env.int("WMS2_SWEEP_BATCH", default=500)
POLL_INTERVAL_SEC = env.float("WMS2_POLL_INTERVAL_SEC", default=10.0)
MAX_CONSECUTIVE_ERRORS = env.int("WMS2_MAX_CONSECUTIVE_ERRORS", default=10)
MAX_WORKER_DEATHS = env.int("WMS2_MAX_WORKER_DEATHS", default=3)
ERROR_BACKOFF_BASE_SEC = env.float("WMS2_ERROR_BACKOFF_BASE_SEC", default=1.0 if LAB else 5.0)
ERROR_BACKOFF_MAX_SEC = env.float("WMS2_ERROR_BACKOFF_MAX_SEC", default=600.0)

# Admission: initial value of the row that operators edit
MAX_ACTIVE_DAGS = env.int("WMS2_MAX_ACTIVE_DAGS", default=300)

# Input
INPUT_LOOK_SEC = env.float("WMS2_INPUT_LOOK_SEC", default=60.0)
LOCATION_MAX_AGE_SEC = env.float("WMS2_LOCATION_MAX_AGE_SEC", default=30.0 if LAB else 600.0)
LOCATION_FOLLOW_SEC = env.float("WMS2_LOCATION_FOLLOW_SEC", default=60.0 if LAB else 6 * 3600.0)
PILEUP_CACHE_DAYS = env.float("WMS2_PILEUP_CACHE_DAYS", default=7.0)
PILEUP_MAX_FILES = env.int("WMS2_PILEUP_MAX_FILES", default=2000)

# Copies of files that were proved bad: how long they are avoided, and how they are declared in Rucio
QUARANTINE_DAYS = env.float("WMS2_QUARANTINE_DAYS", default=30.0)
DECLARE_BAD_REPLICAS = env.str("WMS2_DECLARE_BAD_REPLICAS", default="off")
if DECLARE_BAD_REPLICAS not in ("off", "suspicious", "bad"):
    raise ImproperlyConfigured(
        f"WMS2_DECLARE_BAD_REPLICAS is {DECLARE_BAD_REPLICAS!r}; set it to off, suspicious or bad"
    )

# Planning
JOBS_PER_GROUP = env.int("WMS2_JOBS_PER_GROUP", default=8)
MAX_JOBS_PER_ROUND = env.int("WMS2_MAX_JOBS_PER_ROUND", default=1_000_000)
TARGET_JOB_SEC = env.int("WMS2_TARGET_JOB_SEC", default=8 * 3600)
PILOT_INITIAL_EVENTS = env.int("WMS2_PILOT_INITIAL_EVENTS", default=5 if LAB else 100)
PILOT_TIME_BUDGET_SEC = env.int("WMS2_PILOT_TIME_BUDGET_SEC", default=60 if LAB else 8 * 3600)
PILOT_MAX_ROUNDS = env.int("WMS2_PILOT_MAX_ROUNDS", default=1 if LAB else 6)
PILOT_TOLERANCE = env.float("WMS2_PILOT_TOLERANCE", default=0.10)
LEARN_FROM_REQUESTS = env.int("WMS2_LEARN_FROM_REQUESTS", default=0 if LAB else 3)
LEARN_TOLERANCE = env.float("WMS2_LEARN_TOLERANCE", default=0.25)
LEARN_AVOID_AFTER = env.int("WMS2_LEARN_AVOID_AFTER", default=2)
FIRST_ROUND_GROUPS = env.int("WMS2_FIRST_ROUND_GROUPS", default=1)
GROUPS_PER_ROUND = env.int("WMS2_GROUPS_PER_ROUND", default=10)
MEMORY_PER_CORE_MIN_MB = env.int("WMS2_MEMORY_PER_CORE_MIN_MB", default=100 if LAB else 2000)
MEMORY_PER_CORE_MAX_MB = env.int("WMS2_MEMORY_PER_CORE_MAX_MB", default=3000)
MEMORY_CEILING_PER_CORE_MB = env.int("WMS2_MEMORY_CEILING_PER_CORE_MB", default=MEMORY_PER_CORE_MAX_MB)
WALL_TIME_CEILING_MIN = env.int("WMS2_WALL_TIME_CEILING_MIN", default=48 * 60)
DISK_CEILING_PER_CORE_MB = env.int("WMS2_DISK_CEILING_PER_CORE_MB", default=20_000)
CATEGORY_THROTTLES = {"Processing": 5000, "Merge": 100, "Cleanup": 50, "MergeGroup": 10}
RETRY_COUNT = {"processing": 3, "merge": 2, "cleanup": 1}

# Payloads: packages that add kinds, and the kind of a request that names none ('' = it must name one)
PAYLOAD_PLUGINS = env.list("WMS2_PAYLOAD_PLUGINS", default=[])
DEFAULT_PAYLOAD = env.str("WMS2_DEFAULT_PAYLOAD", default="")
SANDBOX_HOSTS = env.list("WMS2_SANDBOX_HOSTS", default=[])
SANDBOX_CA_BUNDLE = env.str("WMS2_SANDBOX_CA_BUNDLE", default="")
SANDBOX_MAX_BYTES = env.int("WMS2_SANDBOX_MAX_BYTES", default=64 * 1024 * 1024)
SANDBOX_ALLOW_PRIVATE = SANDBOX_ANY_PORT = LAB  # the lab's servers are on loopback, at any port

# DAGMan. A finished group is recorded within the first two intervals plus one run of the monitor.
DAGMAN_STATUS_INTERVAL_SEC = env.int("WMS2_DAGMAN_STATUS_INTERVAL_SEC", default=1)
DAGMAN_QUEUE_UPDATE_SEC = env.int("WMS2_DAGMAN_QUEUE_UPDATE_SEC", default=2 if LAB else 15)
DAGMAN_LOG_SCAN_SEC = env.int("WMS2_DAGMAN_LOG_SCAN_SEC", default=1)
DAGMAN_MAX_IDLE_JOBS = env.int("WMS2_DAGMAN_MAX_IDLE_JOBS", default=1000)
COOLOFF_BASE_SEC = env.int("WMS2_COOLOFF_BASE_SEC", default=1 if LAB else 60)
HELD_GRACE_SEC = env.int("WMS2_HELD_GRACE_SEC", default=2 if LAB else 60)
MAX_TRANSFER_OUTPUT_MB = env.int("WMS2_MAX_TRANSFER_OUTPUT_MB", default=32)
IDLE_ALERT_SEC = env.int("WMS2_IDLE_ALERT_SEC", default=48 * 3600)
HANG_LOOK_SEC = env.int("WMS2_HANG_LOOK_SEC", default=300)
HANG_CPU_SEC = env.float("WMS2_HANG_CPU_SEC", default=1800.0)
HANG_RUNTIME_FACTOR = env.float("WMS2_HANG_RUNTIME_FACTOR", default=3.0)
HANG_MIN_RUNTIME_SEC = env.float("WMS2_HANG_MIN_RUNTIME_SEC", default=900.0)
HANG_RETRY = env.bool("WMS2_HANG_RETRY", default=False)
STRAGGLER_FACTOR = env.float("WMS2_STRAGGLER_FACTOR", default=2.0)
DAG_VANISHED_AFTER_SEC = env.float("WMS2_DAG_VANISHED_AFTER_SEC", default=120.0)
MAX_FILE_ATTEMPTS = env.int("WMS2_MAX_FILE_ATTEMPTS", default=6)

# Pull mode: seconds without a heartbeat after which the files of a runner are free, and how long a runner
# keeps trying while WMS2 does not answer
# and where jobs reach WMS2: its address, and a file with the authorities of its certificate
JOBS_URL = env.str("WMS2_JOBS_URL", default="").rstrip("/")
if JOBS_URL and not JOBS_URL.startswith("https://") and not LAB:
    raise ImproperlyConfigured(f"WMS2_JOBS_URL is {JOBS_URL!r}; use https://, because jobs send tokens there")
JOBS_CA_FILE = env.str("WMS2_JOBS_CA_FILE", default="")
RUNNER_LEASE_SEC = env.int("WMS2_RUNNER_LEASE_SEC", default=600)
RUNNER_KEEP_DAYS = env.float("WMS2_RUNNER_KEEP_DAYS", default=14.0)  # after its round; then only counts
RUNNER_PATIENCE_SEC = env.int("WMS2_RUNNER_PATIENCE_SEC", default=1800)

# The submit host
MIN_FREE_BYTES = env.int("WMS2_MIN_FREE_BYTES", default=200_000_000 if LAB else 10_000_000_000)
MIN_FREE_INODES = env.int("WMS2_MIN_FREE_INODES", default=10_000 if LAB else 200_000)
KEEP_COMPLETED_DAYS = env.float("WMS2_KEEP_COMPLETED_DAYS", default=30.0)
KEEP_FAILED_DAYS = env.float("WMS2_KEEP_FAILED_DAYS", default=90.0)
KEEP_ARCHIVES_DAYS = env.float("WMS2_KEEP_ARCHIVES_DAYS", default=365.0)
KEEP_SAMPLES_DAYS = env.float("WMS2_KEEP_SAMPLES_DAYS", default=180.0)
KEEP_FILES_DAYS = env.float("WMS2_KEEP_FILES_DAYS", default=180.0)
KEEP_EVENTS_DAYS = env.float("WMS2_KEEP_EVENTS_DAYS", default=365.0)
KEEP_AUDIT_DAYS = env.float("WMS2_KEEP_AUDIT_DAYS", default=1095.0)
if min(KEEP_EVENTS_DAYS, KEEP_AUDIT_DAYS) < 31:
    raise ImproperlyConfigured(
        "WMS2_KEEP_EVENTS_DAYS and WMS2_KEEP_AUDIT_DAYS must be at least 31: the database refuses to delete"
        " younger rows"
    )

# Schedds
SCHEDDS = env.list("WMS2_SCHEDDS", default=[])
SCHEDD_TIMEOUT_SEC = env.float("WMS2_SCHEDD_TIMEOUT_SEC", default=5.0 if LAB else 15.0)
SCHEDD_ASK_AGAIN_SEC = env.float("WMS2_SCHEDD_ASK_AGAIN_SEC", default=2.0 if LAB else 30.0)
SCHEDD_SILENT_ALERT_SEC = env.float("WMS2_SCHEDD_SILENT_ALERT_SEC", default=5.0 if LAB else 600.0)
REQUESTOR_MAX_PRIORITY = env.int("WMS2_REQUESTOR_MAX_PRIORITY", default=500_000)
OPEN_GROUPS = env.list("WMS2_OPEN_GROUPS", default=["DATAOPS"])
MAX_RESTARTS = 3

# Recovery
ERROR_HOLD_THRESHOLD = env.float("WMS2_ERROR_HOLD_THRESHOLD", default=0.20)
ERROR_MAX_RESCUE_ATTEMPTS = env.int("WMS2_ERROR_MAX_RESCUE_ATTEMPTS", default=3)
SITE_BAN_DURATION_DAYS = env.float("WMS2_SITE_BAN_DURATION_DAYS", default=7.0)
SITE_BAN_PROMOTION_THRESHOLD = env.int("WMS2_SITE_BAN_PROMOTION_THRESHOLD", default=3)
SITE_BAN_PROMOTION_REQUESTORS = env.int("WMS2_SITE_BAN_PROMOTION_REQUESTORS", default=3)
SITE_BAN_MIN_FAILURES = env.int("WMS2_SITE_BAN_MIN_FAILURES", default=3)
SITE_BAN_FAILURE_RATIO = env.float("WMS2_SITE_BAN_FAILURE_RATIO", default=0.50)

# Status of a site that CRIC lists for the first time
NEW_SITES = env.str("WMS2_NEW_SITES", default="enabled" if LAB else "disabled")
if NEW_SITES not in ("enabled", "disabled"):
    raise ImproperlyConfigured(f"WMS2_NEW_SITES is {NEW_SITES!r}; set it to enabled or disabled")

# Delivery of alerts by webhook and mail
ALERT_WEBHOOK_URL = env.str("WMS2_ALERT_WEBHOOK_URL", default="")
ALERT_WEBHOOK_HOSTS = env.list("WMS2_ALERT_WEBHOOK_HOSTS", default=[])
ALERT_EMAIL_TO = env.list("WMS2_ALERT_EMAIL_TO", default=[])
ALERT_EMAIL_FROM = env.str("WMS2_ALERT_EMAIL_FROM", default="wms2@localhost")
EMAIL_TIMEOUT = env.float("WMS2_ALERT_TIMEOUT_SEC", default=10.0)
EMAIL_HOST = env.str("WMS2_EMAIL_HOST", default="localhost")
EMAIL_PORT = env.int("WMS2_EMAIL_PORT", default=25)

# Outputs
CHECK_OUTPUTS = env.bool("WMS2_CHECK_OUTPUTS", default=True)
CHECK_LOOK_SEC = env.float("WMS2_CHECK_LOOK_SEC", default=60.0)
BLOCK_LINGER_SEC = env.int("WMS2_BLOCK_LINGER_SEC", default=0)
BLOCK_MAX_FILES = env.int("WMS2_BLOCK_MAX_FILES", default=500)
TRANSFER_POLL_INTERVAL_SEC = env.float("WMS2_TRANSFER_POLL_INTERVAL_SEC", default=2.0 if LAB else 300.0)
OUTPUT_ALERT_AFTER_SEC = env.float("WMS2_OUTPUT_ALERT_AFTER_SEC", default=900.0)
OUTPUT_HOLD_AFTER_SEC = env.float("WMS2_OUTPUT_HOLD_AFTER_SEC", default=6 * 3600.0)
COMPARE_LOOK_SEC = env.float("WMS2_COMPARE_LOOK_SEC", default=30.0)
CLEAN_LOOK_SEC = env.float("WMS2_CLEAN_LOOK_SEC", default=60.0)
REQMGR2_WRITE_BACK = env.bool("WMS2_REQMGR2_WRITE_BACK", default=False)
REQMGR2_TEAM = env.str("WMS2_REQMGR2_TEAM", default="wms2")
RUCIO_SCOPE = env.str("WMS2_RUCIO_SCOPE", default="cms")

# Chains
CHAIN_MAX_STEPS = env.int("WMS2_CHAIN_MAX_STEPS", default=1000)
CHAIN_LOOK_SEC = env.float("WMS2_CHAIN_LOOK_SEC", default=2.0 if LAB else 60.0)

# Callbacks to requestors
CALLBACK_HOSTS = env.list("WMS2_CALLBACK_HOSTS", default=[])
CALLBACK_SECRET = env.str("WMS2_CALLBACK_SECRET", default="")
CALLBACK_CA_BUNDLE = env.str("WMS2_CALLBACK_CA_BUNDLE", default="")
CALLBACK_MAX_ATTEMPTS = env.int("WMS2_CALLBACK_MAX_ATTEMPTS", default=12)
CALLBACK_ALLOW_PRIVATE = CALLBACK_ANY_PORT = LAB  # the lab's receivers are on loopback, at any port
