"""`manage.py request OPERATION REQUEST --reason …`."""

from __future__ import annotations

from requests_app.operations import REQUEST_OPERATIONS
from wms2_project.operations.command import OperationCommand


class Command(OperationCommand):
    help = "Submit, stop, release, edit, restart or end a request."
    operations = REQUEST_OPERATIONS
