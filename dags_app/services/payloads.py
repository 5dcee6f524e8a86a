"""The payloads of this installation, from the settings."""

from __future__ import annotations

from typing import Any

from django.conf import settings

from dags_app.models import Workflow
from dags_app.planning.payloads import PayloadRefused, PayloadRules
from dags_app.planning.plan import PlanRefused


def payload_rules() -> PayloadRules:
    return PayloadRules(tuple(settings.PAYLOAD_PLUGINS), settings.DEFAULT_PAYLOAD)


def payload_of(workflow: Workflow) -> dict[str, Any]:
    """Return the payload of the workflow's jobs; a request accepted earlier may not have named its kind.

    Raises PlanRefused if jobs could not run it.
    """
    try:
        return payload_rules().with_kind(workflow.payload_config, release=workflow.cmssw_version)
    except PayloadRefused as refused:
        raise PlanRefused(
            f"payload_config.{refused.field}: {refused.message}",
            cure="Restart the request with another payload_config",
        ) from refused
