"""`manage.py dataset OPERATION …`."""

from __future__ import annotations

from chains_app.operations import ANNOUNCEMENT_OPERATIONS
from wms2_project.operations.command import OperationCommand


class Command(OperationCommand):
    help = "Announce a dataset."
    operations = tuple(one for one in ANNOUNCEMENT_OPERATIONS if one.target.kind == "dataset")
