"""The streams process: `uvicorn console.streams.asgi:application`."""

from __future__ import annotations

import os

import django

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "wms2_project.settings")
django.setup()

from console.streams.application import Application  # noqa: E402 - needs the settings

application = Application()
