"""What operators, or a robot that measures, say of a site: slots, memory per core, how full storage is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.db import transaction

from dags_app.adapters import rucio
from sites_app.models import Site
from sites_app.selectors import storage_at
from wms2_project import audit
from wms2_project.errors import StaleVersion

MEASURED = "storage_measured_fraction"
_COLUMNS = ("total_slots", "running_slots", "pending_slots")


def change_site(
    *, site: Site, changes: Mapping[str, Any], actor: str, reason: str, expected_version: int | None = None
) -> Site:
    """Change what is named; null forgets it. Planning and admission look at it from now on."""
    with transaction.atomic():
        locked = Site.objects.select_for_update().get(pk=site.pk)
        if expected_version not in (None, locked.version):
            raise StaleVersion(f"{site.name} changed since you read it", cure="Read it again and repeat")
        for name, value in changes.items():
            if name in _COLUMNS:
                setattr(locked, name, value)
            elif name == "memory_mb_per_core":
                locked.thresholds = _with(locked.thresholds, name, value)
            else:
                locked.config_data = _with(locked.config_data, name, value)
        locked.version += 1
        locked.save()
        audit.record(actor=actor, action="change", target=site.name, reason=reason, changes=dict(changes))
    site.refresh_from_db()
    return site


def measure_storage() -> int:
    """Ask Rucio how full the storage is that each site's jobs write to; answer how many told.

    It is kept beside what a person says (PATCH), which stands until that is taken back with null.
    """
    told = 0
    for name in Site.objects.values_list("name", flat=True):
        used = rucio().used_fraction(storage_at(name))
        with transaction.atomic():
            locked = Site.objects.select_for_update().get(pk=name)
            locked.config_data = _with(locked.config_data, MEASURED, used)
            locked.save(update_fields=["config_data"])
        told += used is not None
    return told


def storage_used(config_data: Mapping[str, Any]) -> float | None:
    """How full a site's storage is: a person's word first, else what was measured; None if nobody knows."""
    known: float | None = config_data.get("storage_used_fraction", config_data.get(MEASURED))
    return known


def _with(values: dict[str, Any], name: str, value: Any) -> dict[str, Any]:
    rest = {key: kept for key, kept in values.items() if key != name}
    return rest if value is None else rest | {name: value}
