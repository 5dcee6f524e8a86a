"""Write the fleet: all rows in one transaction, by COPY, and keep the stack from changing them.

Requests and blocks have leases that never end, so that no worker claims them, also after an operator's
action. Tasks that observe the pool, the sites and the services would replace what was seeded: they are
switched off.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from datetime import UTC, datetime
from random import Random

from django.db import transaction
from django.db.models import Model
from django_celery_beat.models import PeriodicTask, PeriodicTasks

from dags_app.models import MergeGroup, Schedd, Workflow
from dags_app.planning import names
from dags_app.states import FileState, SplittingAlgo
from lab.fleet.copying import copy_rows, next_keys
from lab.fleet.outputs import make_outputs
from lab.fleet.samples import make_samples
from lab.fleet.stories import S, Story, tell_stories
from lab.fleet.surroundings import make_alerts, make_audit, make_bans, make_slot_samples, place_sites
from lab.fleet.work import SCHEDD, make_work
from outputs_app.models import OutputBlock
from requests_app.admission import limits
from requests_app.models import AdmissionConfig, Request, StatusTransition
from requests_app.states import TAKES_CAPACITY
from sites_app.models import SlotSample
from wms2_project.access.audit import seal_soon

FOREVER = datetime(2100, 1, 1, tzinfo=UTC)
OWNER = "lab:fleet"
FREE_SLOTS = 3  # of admission, for requests that are submitted to this stack
SWEEP = "sweep"


class FleetExists(Exception):
    """The database has requests of a fleet."""


def seed_fleet(*, requests: int, seed: int, now: datetime) -> dict[str, int]:
    """Write the fleet. Return the number of rows by table. Raise FleetExists if there is one."""
    stories = list(tell_stories(requests=requests, seed=seed, now=now))
    if Request.objects.filter(request_name__in=[story.name for story in stories]).exists():
        raise FleetExists("this stack has a fleet already: use another stack (WMS2_HOME)")
    random = Random(seed)  # noqa: S311 — reproducible, not secret
    _switch_off_tasks()  # first: Beat needs a moment to notice
    with transaction.atomic():
        Schedd.objects.get_or_create(name=SCHEDD, defaults={"asked_at": now, "answered_at": now})
        rows = _rows(stories, random, now)
        for found in rows.values():
            copy_rows(found)
        place_sites(now=now)
        SlotSample.objects.all().delete()  # of the pool, measured since the stack was started
        copy_rows(list(make_slot_samples(random, now)))
        _fill_admission(stories)
    seal_soon()
    return {str(model._meta.verbose_name_plural): len(found) for model, found in rows.items()}


def _rows(stories: Sequence[Story], random: Random, now: datetime) -> dict[type[Model], list[Model]]:
    keys = iter(next_keys(MergeGroup, sum(story.groups + 1 for story in stories)))
    rows: dict[type[Model], list[Model]] = defaultdict(list)
    requests: list[Request] = []
    for story in stories:
        workflow = _workflow(story, random)
        work = make_work(workflow, story, keys, random, now)
        outputs = make_outputs(workflow, story, work.groups, random, now)
        _sum_up(workflow, work.files)
        requests.append(_request(story, workflow))
        made: list[Model] = [workflow, requests[-1], *_history(story, requests[-1])]
        made += [*work.rounds, *work.dags, *work.groups, *work.files, *work.failures]
        made += make_samples(requests[-1], workflow, story, work.groups, now)
        made += [*outputs.datasets, *outputs.claims, *outputs.blocks, *outputs.files, *outputs.rules]
        for block in outputs.blocks:
            _lease(block)
        for row in made:
            rows[type(row)].append(row)
    for row in (
        *make_alerts(requests, random, now),
        *make_bans(requests, now),
        *make_audit(requests, random, now),
    ):
        rows[type(row)].append(row)
    return rows


def _lease(row: Request | OutputBlock) -> None:
    row.owner, row.heartbeat_at, row.next_check_at = OWNER, FOREVER, FOREVER


def _workflow(story: Story, random: Random) -> Workflow:
    campaign, string = story.campaign, f"Fleet{story.number:04d}"
    began = story.steps[0].at
    generates = campaign.generates
    workflow = Workflow(
        id=names.dag_id(story.name, round_number=0),
        request_name=story.name,
        output_datasets=[f"/{story.primary}/{campaign.era}-{string}-v1/{campaign.tier}"],
        primary_dataset=story.primary,
        acquisition_era=campaign.era,
        processing_string=string,
        cmssw_version=campaign.release,
        scram_arch="el9_amd64_gcc14",
        global_tag="200X_mcRun_v4" if generates else "200X_dataRun_Prompt_v2",
        payload_config={"kind": "toy"},
        splitting_algo=SplittingAlgo.EVENT_BASED if generates else SplittingAlgo.FILE_BASED,
        splitting_params={"events_per_job": story.events_per_job} if generates else {"files_per_job": 2},
        memory_mb=story.memory_mb,
        cores=random.choice((1, 4, 8)),
        time_per_event_sec=round(random.uniform(0.8, 14), 2),
        size_per_event_kb=round(random.uniform(0.8, 3), 2),
        total_events=story.groups * story.jobs_per_group * story.events_per_job if generates else None,
        input_resolved_at=None if generates else began,
        located_at=FOREVER,
        created_at=began,
        updated_at=began,
    )
    if not generates:
        workflow.input_dataset = f"/{story.primary}/{campaign.era}-v1/{campaign.input_tier}"
    return workflow


def _request(story: Story, workflow: Workflow) -> Request:
    last = story.steps[-1]
    held = story.status is S.HELD
    request = Request(
        id=names.dag_id(f"request {story.name}", round_number=0), request_name=story.name, workflow=workflow,
        request_data={
            "RequestName": story.name, "Campaign": story.campaign.name, "RequestPriority": story.priority,
            "Memory": story.memory_mb, "OutputDatasets": workflow.output_datasets,
            "InputDataset": workflow.input_dataset, "CMSSWVersion": workflow.cmssw_version,
        },
        requestor=story.requestor, submitted_by=story.requestor, group=story.group,
        campaign=story.campaign.name, priority=story.priority, rank=float(story.priority),
        urgent=story.urgent, status=story.status, status_since=last.at,
        wait_gate="admission" if story.status is S.QUEUED else "",
        wait_reason="waits for a place among the running requests" if story.status is S.QUEUED else "",
        last_error=last.reason if held else "", last_error_at=last.at if held else None,
        hold_evidence={"reason": last.reason} if held else None,
        created_at=story.steps[0].at, updated_at=last.at,
    )  # fmt: skip
    _lease(request)
    return request


def _history(story: Story, request: Request) -> list[StatusTransition]:
    before = ["", *(step.status for step in story.steps)]
    return [
        StatusTransition(
            request=request, from_status=was, to_status=step.status, reason=step.reason, actor=step.actor,
            evidence={"reason": step.reason} if step.status is S.HELD else None, at=step.at,
        )
        for was, step in zip(before, story.steps, strict=False)
    ]  # fmt: skip


def _sum_up(workflow: Workflow, files: Sequence[Model]) -> None:
    """Set the sums over the ledger that lists of requests show."""
    for file in files:
        events, state = getattr(file, "events", 0), getattr(file, "state", "")
        workflow.input_events += events
        workflow.input_events_excluded += events if state == FileState.EXCLUDED else 0


def _fill_admission(stories: Sequence[Story]) -> None:
    """Set the admission limit slightly above the number of active requests."""
    limits()
    active = sum(story.status in TAKES_CAPACITY for story in stories)
    AdmissionConfig.objects.update(max_active_dags=active + FREE_SLOTS)


def _switch_off_tasks() -> None:
    PeriodicTask.objects.exclude(name=SWEEP).update(enabled=False)
    PeriodicTasks.update_changed()
