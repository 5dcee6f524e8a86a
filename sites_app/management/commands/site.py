"""`manage.py site OPERATION SITE --reason …`."""

from __future__ import annotations

from sites_app.operations import OPERATIONS
from wms2_project.operations.command import OperationCommand


class Command(OperationCommand):
    help = "Drain, disable, enable, ban or configure a site, or start its maintenance."
    operations = OPERATIONS
