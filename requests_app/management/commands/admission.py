"""`manage.py admission edit --reason …`."""

from __future__ import annotations

from requests_app.operations import ADMISSION_OPERATIONS
from wms2_project.operations.command import OperationCommand


class Command(OperationCommand):
    help = "Change the admission limits, or pause admission."
    operations = ADMISSION_OPERATIONS
