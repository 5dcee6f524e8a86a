"""`manage.py chain OPERATION …`."""

from __future__ import annotations

from chains_app.operations import CHAIN_OPERATIONS
from wms2_project.operations.command import OperationCommand


class Command(OperationCommand):
    help = "Cancel a chain, or retry, skip, approve or reject one of its steps."
    operations = CHAIN_OPERATIONS
