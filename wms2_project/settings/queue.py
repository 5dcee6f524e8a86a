"""Celery on Redis, configured so that losing a worker, broker or message loses no work."""

from __future__ import annotations

from kombu import Queue  # type: ignore[attr-defined]

from wms2_project.settings.environment import LAB, env
from wms2_project.settings.services import CREDENTIALS_INTERVAL_SEC, INTAKE_POLL_INTERVAL_SEC

REDIS_URL = env.str("REDIS_URL")
SWEEP_INTERVAL_SEC = env.float("WMS2_SWEEP_INTERVAL_SEC", default=1.0 if LAB else 5.0)
CHAIN_SWEEP_INTERVAL_SEC = env.float("WMS2_CHAIN_SWEEP_INTERVAL_SEC", default=1.0)
MEASURE_INTERVAL_SEC = env.float("WMS2_MEASURE_INTERVAL_SEC", default=3600.0)
SITE_SYNC_INTERVAL_SEC = env.float("WMS2_SITE_SYNC_INTERVAL_SEC", default=3600.0)
SLOTS_INTERVAL_SEC = env.float("WMS2_SLOTS_INTERVAL_SEC", default=10.0 if LAB else 300.0)
TIDY_INTERVAL_SEC = env.float("WMS2_TIDY_INTERVAL_SEC", default=5.0 if LAB else 60.0)
MONITOR_INTERVAL_SEC = env.float("WMS2_MONITOR_INTERVAL_SEC", default=1.0 if LAB else 2.0)

CELERY_BROKER_URL = REDIS_URL
CELERY_TASK_QUEUES = [Queue(name) for name in ("lifecycle", "planning", "condor", "outputs")]
CELERY_TASK_DEFAULT_QUEUE = "lifecycle"
CELERY_TASK_CREATE_MISSING_QUEUES = False
CELERY_TASK_IGNORE_RESULT = True
CELERY_TASK_ACKS_LATE = True
CELERY_TASK_REJECT_ON_WORKER_LOST = True
CELERY_TASK_SOFT_TIME_LIMIT = 240
CELERY_TASK_TIME_LIMIT = 300
CELERY_TASK_SERIALIZER = "json"
CELERY_ACCEPT_CONTENT = ["json"]
CELERY_TASK_SEND_SENT_EVENT = False  # saves a round trip per task; workers report what they received
CELERY_WORKER_SEND_TASK_EVENTS = True
CELERY_WORKER_PREFETCH_MULTIPLIER = 1
CELERY_WORKER_MAX_TASKS_PER_CHILD = 500
CELERY_WORKER_SOFT_SHUTDOWN_TIMEOUT = 25
CELERY_WORKER_CANCEL_LONG_RUNNING_TASKS_ON_CONNECTION_LOSS = True
CELERY_BROKER_CONNECTION_RETRY_ON_STARTUP = True
CELERY_BROKER_TRANSPORT_OPTIONS = {
    "visibility_timeout": 900,  # longer than the hard time limit; otherwise a slow task is delivered twice
    "unacked_restore_interval": 10,  # the default redelivers a dead worker's message after about 100 s
    "unacked_restore_throttle": 1,
    "health_check_interval": 25,
    "socket_timeout": 20,
    "socket_connect_timeout": 5,
}
CELERY_TIMEZONE = "UTC"
CELERY_ENABLE_UTC = True
CELERY_BEAT_SCHEDULER = "wms2_project.beat:LeaderScheduler"
CELERY_BEAT_SCHEDULE = {
    # `expires` is shorter than the interval: after an outage one sweep runs, not a backlog of them
    "sweep": {
        "task": "requests_app.tasks.sweep",
        "schedule": SWEEP_INTERVAL_SEC,
        "options": {"queue": "lifecycle", "expires": SWEEP_INTERVAL_SEC * 0.9},
    },
    "sweep_chains": {
        "task": "chains_app.tasks.sweep_chains",
        "schedule": CHAIN_SWEEP_INTERVAL_SEC,
        "options": {"queue": "lifecycle", "expires": CHAIN_SWEEP_INTERVAL_SEC * 0.9},
    },
    "match_announcements": {
        "task": "chains_app.tasks.match_announcements",
        "schedule": CHAIN_SWEEP_INTERVAL_SEC,
        "options": {"queue": "lifecycle", "expires": CHAIN_SWEEP_INTERVAL_SEC * 0.9},
    },
    "check_deadlines": {
        "task": "chains_app.tasks.check_deadlines",
        "schedule": 30.0,
        "options": {"queue": "lifecycle", "expires": 27.0},
    },
    "poll_datasets": {
        "task": "chains_app.tasks.poll_datasets",
        "schedule": INTAKE_POLL_INTERVAL_SEC,
        "options": {"queue": "outputs", "expires": INTAKE_POLL_INTERVAL_SEC * 0.9},
    },
    "monitor": {
        "task": "requests_app.tasks.monitor",
        "schedule": MONITOR_INTERVAL_SEC,
        "options": {"queue": "condor", "expires": MONITOR_INTERVAL_SEC * 0.9},
    },
    "report": {
        "task": "requests_app.tasks.report",
        "schedule": 60.0,
        "options": {"queue": "outputs", "expires": 54.0},
    },
    "measure": {
        "task": "requests_app.tasks.measure",
        "schedule": MEASURE_INTERVAL_SEC,
        "options": {"queue": "outputs", "expires": MEASURE_INTERVAL_SEC * 0.9},
    },
    "rank": {
        "task": "requests_app.tasks.rank",
        "schedule": 60.0,
        "options": {"queue": "lifecycle", "expires": 54.0},
    },
    "sync_sites": {
        "task": "requests_app.tasks.sync_sites",
        "schedule": SITE_SYNC_INTERVAL_SEC,
        "options": {"queue": "outputs", "expires": SITE_SYNC_INTERVAL_SEC * 0.9},
    },
    "slots": {
        "task": "requests_app.tasks.slots",
        "schedule": SLOTS_INTERVAL_SEC,
        "options": {"queue": "condor", "expires": SLOTS_INTERVAL_SEC * 0.9},
    },
    "credentials": {
        "task": "requests_app.tasks.credentials",
        "schedule": CREDENTIALS_INTERVAL_SEC,
        "options": {"queue": "condor", "expires": CREDENTIALS_INTERVAL_SEC * 0.9},
    },
    "clean": {
        "task": "requests_app.tasks.clean",
        "schedule": TIDY_INTERVAL_SEC,
        "options": {"queue": "outputs", "expires": TIDY_INTERVAL_SEC * 0.9},
    },
    "retain": {
        "task": "requests_app.tasks.retain",
        "schedule": 600.0,
        "options": {"queue": "outputs", "expires": 540.0},
    },
    "declare_replicas": {
        "task": "requests_app.tasks.declare_replicas",
        "schedule": TIDY_INTERVAL_SEC,
        "options": {"queue": "outputs", "expires": TIDY_INTERVAL_SEC * 0.9},
    },
    "tidy": {
        "task": "requests_app.tasks.tidy",
        "schedule": TIDY_INTERVAL_SEC,
        "options": {"queue": "lifecycle", "expires": TIDY_INTERVAL_SEC * 0.9},
    },
}
