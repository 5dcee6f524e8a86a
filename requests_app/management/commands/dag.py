"""`manage.py dag ACTION ID --reason …`: hold, release, remove or rescue a DAG."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any
from uuid import UUID

from django.core.management.base import BaseCommand

from dags_app.api.views import dag_by_id
from dags_app.services.control import DagAction, act_on_dag
from requests_app.services.rescuing import rescue_dag
from wms2_project.errors import Wms2Error
from wms2_project.shell import refusal, shell_actor

RESCUE = "rescue"


class Command(BaseCommand):
    help = "Hold, release or remove the DAGMans of a DAG, or submit the DAG again as a rescue."

    def add_arguments(self, parser: ArgumentParser) -> None:
        """The action, the DAG, the reason."""
        parser.add_argument("action", choices=[*(action.value for action in DagAction), RESCUE])
        parser.add_argument("id", type=UUID)
        parser.add_argument("--reason", required=True)

    def handle(self, *args: Any, **options: Any) -> None:
        """One service, then what it did."""
        actor, reason = shell_actor(), options["reason"]
        try:
            dag = dag_by_id(options["id"])
            if options["action"] == RESCUE:
                told = f"{rescue_dag(dag=dag, actor=actor, reason=reason).pk} is prepared and queued"
            else:
                action = DagAction(options["action"])
                told = act_on_dag(dag=dag, action=action, actor=actor, reason=reason).message
        except Wms2Error as error:
            raise refusal(error) from error
        self.stdout.write(told)
