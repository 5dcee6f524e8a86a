"""Lanes of the whole run have test databases of their own."""

from __future__ import annotations

import pytest
from django.db import connections

from lab.lanes import lane_name


@pytest.fixture(scope="session")
def django_db_modify_db_settings(django_db_modify_db_settings_parallel_suffix: None) -> None:
    """pytest-django's own suffix, and the lane's."""
    lane = lane_name()
    if lane:
        settings = connections["default"].settings_dict
        settings["TEST"]["NAME"] = f"{settings['TEST'].get('NAME') or 'test_' + settings['NAME']}_{lane}"
