"""`manage.py alert acknowledge ALERT --reason …`."""

from __future__ import annotations

from requests_app.operations import ALERT_OPERATIONS
from wms2_project.operations.command import OperationCommand


class Command(OperationCommand):
    help = "Acknowledge an alert."
    operations = ALERT_OPERATIONS
