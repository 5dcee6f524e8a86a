"""Preview of the plan of a document, made by the production planner. Nothing is stored or written."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.conf import settings

from dags_app.models import Workflow
from dags_app.planning.plan import PlanRefused, RoundInput, decide_round
from dags_app.planning.preview import PlanDescription, describe_plan, read_files
from dags_app.planning.types import FileSpec, Plan, SitePool
from dags_app.services.estimating import asked_spec, hinted_estimate, plan_spec
from dags_app.services.input_files import read_input
from dags_app.services.layout_spec import layout_spec
from dags_app.services.ledger import avoiding_bad_copies
from dags_app.services.production import event_budget
from dags_app.services.secondary import read_secondary
from dags_app.states import RoundKind
from requests_app.documents import check_size
from requests_app.services.campaigns import Experience, experience_of
from requests_app.services.importing import workflow_of
from requests_app.services.reading import read_request
from sites_app.selectors import usable_sites
from wms2_project.errors import InvalidInput

# Limits of one API call, by memory and time of a web process
PLANNED_FOR_A_CALL = 100_000
SHOWN_TO_A_CALL = 10_000


@dataclass(frozen=True, slots=True)
class Preview:
    """A plan and its description."""

    plan: Plan
    body: PlanDescription


def preview_request(
    *,
    document: Mapping[str, Any],
    now: datetime,
    files: Sequence[Mapping[str, Any]] | None = None,
    bounded: bool = False,
) -> Preview:
    """Plan the first production round of a document from the experience of its campaign, or the hints.

    With `files` no service is called: they are the input, and their locations are the sites. A bounded
    preview returns the first groups of a large plan and refuses plans above the limit.
    """
    check_size(document)
    spec = read_request(document)
    workflow = workflow_of(spec)
    inputs, sites = read_files(files) if files is not None else _found(workflow, now)
    known = Experience(spec.campaign)
    if files is None:
        known = experience_of(workflow=workflow, campaign=spec.campaign, sites=sites, now=now)
        sites = sites.without(known.bad_sites)
    plan = decide_round(
        RoundInput(
            spec=asked_spec(workflow),
            estimate=known.estimate or hinted_estimate(workflow),
            sites=sites,
            files=inputs,
            budget=event_budget(workflow) if workflow.generates else None,
            limit_groups=settings.FIRST_ROUND_GROUPS if workflow.adaptive else None,
            max_jobs=PLANNED_FOR_A_CALL if bounded else settings.MAX_JOBS_PER_ROUND,
        )
    )
    if bounded and plan.truncated and plan.jobs >= PLANNED_FOR_A_CALL:
        raise InvalidInput(
            f"the plan has more than {PLANNED_FOR_A_CALL} jobs",
            cure="Use larger jobs, or preview the document with ./wms2 manage plan",
        )
    layout = layout_spec(
        workflow=workflow,
        round_number=0,
        kind=RoundKind.PRODUCTION,
        priority=spec.priority,
        prefixes=sites.prefixes,
    )
    body = describe_plan(
        plan=plan,
        spec=plan_spec(workflow),
        layout=layout,
        now=now,
        pilot_first=not (spec.urgent or spec.adaptive or known.estimate),
        learned=known.as_json(),
        shown_jobs=SHOWN_TO_A_CALL if bounded else None,
    )
    return Preview(plan=plan, body=body)


def _found(workflow: Workflow, now: datetime) -> tuple[Sequence[FileSpec], SitePool]:
    names = workflow.secondary_input_datasets
    sites = usable_sites(
        workflow=workflow, now=now, secondary=[read_secondary(name, now=now) for name in names]
    )
    if sites.lacking and not sites.names:
        raise PlanRefused(
            f"no usable site holds {', '.join(names)}", cure="Replicate the pileup, or allow another site"
        )
    files = [] if workflow.generates else read_input(workflow=workflow, sites=sites)
    return avoiding_bad_copies(files, workflow=workflow), sites
