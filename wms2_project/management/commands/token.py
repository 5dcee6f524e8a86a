"""`manage.py token OPERATION [TOKEN] --reason …`."""

from __future__ import annotations

from wms2_project.access.operations import TOKEN_OPERATIONS
from wms2_project.operations.command import OperationCommand


class Command(OperationCommand):
    help = "Issue or revoke an API token. `access` does the same by account and name."
    operations = TOKEN_OPERATIONS
