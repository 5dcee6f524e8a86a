"""`manage.py identity OPERATION [IDENTITY] --reason …`."""

from __future__ import annotations

from wms2_project.access.identity_operations import IDENTITY_OPERATIONS
from wms2_project.operations.command import OperationCommand


class Command(OperationCommand):
    help = "Link or unlink a certificate or token subject. `access` does the same by account and subject."
    operations = IDENTITY_OPERATIONS
