"""The Django application of `manage.py seed_fleet`."""

from __future__ import annotations

from django.apps import AppConfig


class FleetConfig(AppConfig):
    """Adds the management command; there are no models."""

    name = "lab.fleet"
    label = "fleet"
