"""The Celery application. Tasks live in requests_app.tasks; PostgreSQL, not Celery, decides what is due."""

from __future__ import annotations

import os

from celery import Celery

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "wms2_project.settings")

app = Celery("wms2")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks(["requests_app"])
