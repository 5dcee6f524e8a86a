"""The settings operators know by name. Each is an environment variable `WMS2_<NAME>`; docs/settings.md
lists them with their meaning."""

from __future__ import annotations

from wms2_project.settings.environment import LAB, env

# Lifecycle
LEASE_PULSE_SEC = env.int("WMS2_LEASE_PULSE_SEC", default=10)
LEASE_TTL_SEC = env.int("WMS2_LEASE_TTL_SEC", default=30)
SWEEP_BATCH = env.int("WMS2_SWEEP_BATCH", default=500)
CYCLE_INTERVAL_SEC = env.float("WMS2_CYCLE_INTERVAL_SEC", default=60.0)
POLL_INTERVAL_SEC = env.float("WMS2_POLL_INTERVAL_SEC", default=10.0)
MAX_CONSECUTIVE_ERRORS = env.int("WMS2_MAX_CONSECUTIVE_ERRORS", default=10)
MAX_WORKER_DEATHS = env.int("WMS2_MAX_WORKER_DEATHS", default=3)
ERROR_BACKOFF_BASE_SEC = env.float("WMS2_ERROR_BACKOFF_BASE_SEC", default=1.0 if LAB else 5.0)
ERROR_BACKOFF_MAX_SEC = env.float("WMS2_ERROR_BACKOFF_MAX_SEC", default=600.0)

# Admission (the first values of the row an operator edits live)
MAX_ACTIVE_DAGS = env.int("WMS2_MAX_ACTIVE_DAGS", default=300)

# Planning
JOBS_PER_GROUP = env.int("WMS2_JOBS_PER_GROUP", default=8)
TARGET_MERGED_SIZE_KB = env.int("WMS2_TARGET_MERGED_SIZE_KB", default=4_000_000)
TARGET_JOB_SEC = env.int("WMS2_TARGET_JOB_SEC", default=8 * 3600)
PILOT_INITIAL_EVENTS = env.int("WMS2_PILOT_INITIAL_EVENTS", default=5 if LAB else 100)
PILOT_TIME_BUDGET_SEC = env.int("WMS2_PILOT_TIME_BUDGET_SEC", default=60 if LAB else 8 * 3600)
PILOT_TOLERANCE = env.float("WMS2_PILOT_TOLERANCE", default=0.10)
FIRST_ROUND_GROUPS = env.int("WMS2_FIRST_ROUND_GROUPS", default=1)
GROUPS_PER_ROUND = env.int("WMS2_GROUPS_PER_ROUND", default=10)
MEMORY_PER_CORE_MIN_MB = env.int("WMS2_MEMORY_PER_CORE_MIN_MB", default=100 if LAB else 2000)
MEMORY_PER_CORE_MAX_MB = env.int("WMS2_MEMORY_PER_CORE_MAX_MB", default=3000)
CATEGORY_THROTTLES = {"Processing": 5000, "Merge": 100, "Cleanup": 50, "MergeGroup": 10}
RETRY_COUNT = {"processing": 3, "merge": 2, "cleanup": 1}

# DAGMan's own pace
DAGMAN_STATUS_INTERVAL_SEC = env.int("WMS2_DAGMAN_STATUS_INTERVAL_SEC", default=1 if LAB else 15)
DAGMAN_QUEUE_UPDATE_SEC = env.int("WMS2_DAGMAN_QUEUE_UPDATE_SEC", default=2 if LAB else 15)
DAGMAN_LOG_SCAN_SEC = env.int("WMS2_DAGMAN_LOG_SCAN_SEC", default=1 if LAB else 5)
DAGMAN_MAX_IDLE_JOBS = env.int("WMS2_DAGMAN_MAX_IDLE_JOBS", default=1000)
COOLOFF_BASE_SEC = env.int("WMS2_COOLOFF_BASE_SEC", default=1 if LAB else 60)
DAG_VANISHED_AFTER_SEC = env.float("WMS2_DAG_VANISHED_AFTER_SEC", default=120.0)
MAX_FILE_ATTEMPTS = env.int("WMS2_MAX_FILE_ATTEMPTS", default=6)

# Recovery
ERROR_HOLD_THRESHOLD = env.float("WMS2_ERROR_HOLD_THRESHOLD", default=0.20)
ERROR_MAX_RESCUE_ATTEMPTS = env.int("WMS2_ERROR_MAX_RESCUE_ATTEMPTS", default=3)

# Outputs
BLOCK_LINGER_SEC = env.int("WMS2_BLOCK_LINGER_SEC", default=0)
BLOCK_MAX_FILES = env.int("WMS2_BLOCK_MAX_FILES", default=500)
TRANSFER_POLL_INTERVAL_SEC = env.float("WMS2_TRANSFER_POLL_INTERVAL_SEC", default=300.0)
RUCIO_SCOPE = env.str("WMS2_RUCIO_SCOPE", default="cms")
