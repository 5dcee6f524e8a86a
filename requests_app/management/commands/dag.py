"""`manage.py dag OPERATION DAG --reason …`."""

from __future__ import annotations

from dags_app.operations import DAG_OPERATIONS
from requests_app.operations import RESCUE_DAG
from wms2_project.operations.command import OperationCommand


class Command(OperationCommand):
    help = "Hold, release, remove or rescue a DAG."
    operations = (*DAG_OPERATIONS, RESCUE_DAG)
