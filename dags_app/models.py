"""Models of execution: Schedd, Workflow, Round, DAG, DAGEvent, MergeGroup; see also `input_models`.

These tables have no reference to requests or their statuses. There is no row per job: jobs exist in the
groups' manifests on disk and in HTCondor. Runners are the exception (`dags_app.pull.models`): files are lent
to them.
"""

from __future__ import annotations

import uuid

from django.contrib.postgres.fields import ArrayField
from django.contrib.postgres.indexes import GinIndex
from django.db import models
from django.db.models import F, Func, Q, Value
from django.utils import timezone

from dags_app.credentials.models import JobToken
from dags_app.failures.models import BadReplica, FailureCluster, QuarantinedReplica
from dags_app.input_models import FoldedInput, InputFile, SecondaryDataset
from dags_app.pull.models import PlaceSet, Runner, RunnerCount, RunnerEvent, RunnerOutput
from dags_app.schedd_models import Schedd
from dags_app.states import (
    LIVE_DAG,
    DAGKind,
    DAGStatus,
    GroupStatus,
    RoundKind,
    RoundStatus,
    SplittingAlgo,
)
from wms2_project.fields import enum_field, name_field, one_of
from wms2_project.grammar import Name

__all__ = [
    "DAG",
    "BadReplica",
    "DAGEvent",
    "FailureCluster",
    "FoldedInput",
    "InputFile",
    "JobToken",
    "MergeGroup",
    "PlaceSet",
    "QuarantinedReplica",
    "Round",
    "Runner",
    "RunnerCount",
    "RunnerEvent",
    "RunnerOutput",
    "Schedd",
    "SecondaryDataset",
    "Workflow",
]


class Workflow(models.Model):
    """The execution of a request: input, payload, output and resources."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    request_name = name_field(Name.REQUEST, unique=True)
    first_version = models.ForeignKey(  # of a restarted request: the workflow of its first version
        "self", null=True, blank=True, on_delete=models.PROTECT, related_name="+"
    )

    # Input and output
    input_dataset = name_field(Name.DATASET, null=True, blank=True)
    further_input_datasets = ArrayField(name_field(Name.DATASET), default=list, blank=True)
    secondary_input_datasets = ArrayField(name_field(Name.DATASET), default=list, blank=True)
    output_datasets = ArrayField(name_field(Name.DATASET), default=list, blank=True)
    log_dataset = name_field(Name.DATASET, null=True, blank=True)
    primary_dataset = models.CharField(max_length=100, blank=True, default="")
    merged_lfn_base = name_field(Name.LFN_BASE, default="/store/data")
    unmerged_lfn_base = name_field(Name.LFN_BASE, default="/store/unmerged")
    acquisition_era = models.CharField(max_length=200, blank=True, default="")
    processing_string = models.CharField(max_length=200, blank=True, default="")
    processing_version = models.PositiveIntegerField(default=1)
    prep_id = models.CharField(max_length=200, blank=True, default="")

    # Payload, passed to the sandbox unread
    cmssw_version = models.CharField(max_length=100, blank=True, default="")
    scram_arch = models.CharField(max_length=100, blank=True, default="")
    global_tag = models.CharField(max_length=200, blank=True, default="")
    sandbox_url = models.TextField(blank=True, default="")
    config_cache_id = models.CharField(max_length=100, blank=True, default="")
    payload_config = models.JSONField(default=dict, blank=True)

    # Splitting
    splitting_algo = enum_field(SplittingAlgo)
    splitting_params = models.JSONField(default=dict, blank=True)
    target_merged_size_kb = models.PositiveBigIntegerField(default=4_000_000)
    jobs_per_group = models.PositiveIntegerField(null=True, blank=True)
    adaptive = models.BooleanField(default=False)
    allocation = models.CharField(max_length=8, default="push")
    category_throttles = models.JSONField(default=dict, blank=True)

    # Pull mode: runners at a time, how far they may read (see dags_app.pull.distances), until when the input
    # may grow, and the workflow whose outputs are the input. The number is part of names of outputs.
    number = models.BigIntegerField(
        unique=True, editable=False, db_default=Func(Value("dags_app_workflow_number"), function="nextval")
    )
    pull_jobs = models.PositiveIntegerField(default=100)
    max_distance = models.PositiveSmallIntegerField(default=0)
    follow_input_until = models.DateTimeField(null=True, blank=True)
    input_from = models.ForeignKey(
        "self", null=True, blank=True, on_delete=models.PROTECT, related_name="consumers"
    )

    # The requestor's estimates, used until there are measurements
    memory_mb = models.PositiveIntegerField(default=2048)
    cores = models.PositiveSmallIntegerField(default=1)
    gpus = models.PositiveSmallIntegerField(default=0)
    time_per_event_sec = models.FloatField(default=1.0)
    size_per_event_kb = models.FloatField(default=1.5)
    site_whitelist = ArrayField(name_field(Name.SITE), default=list, blank=True)
    site_blacklist = ArrayField(name_field(Name.SITE), default=list, blank=True)
    pilot_metrics = models.JSONField(null=True, blank=True)
    learned = models.JSONField(null=True, blank=True)  # from its campaign, at admission; null = not yet

    # Monte Carlo: offsets only increase, so ranges are unique
    total_events = models.PositiveBigIntegerField(null=True, blank=True)
    filter_efficiency = models.FloatField(default=1.0)
    next_first_event = models.PositiveBigIntegerField(default=1)
    next_first_lumi = models.PositiveBigIntegerField(default=1)
    produced_events = models.PositiveBigIntegerField(default=0)

    # Decisions of operators, which outrank every estimate and setting: see services.decisions
    chosen_memory_mb = models.PositiveIntegerField(null=True, blank=True)
    chosen_time_per_event_sec = models.FloatField(null=True, blank=True)
    chosen_retries = models.PositiveSmallIntegerField(null=True, blank=True)
    chosen_hold_threshold = models.FloatField(null=True, blank=True)

    # Sums over its input files, for lists of requests: see ledger.tally
    input_events = models.PositiveBigIntegerField(default=0)
    input_events_excluded = models.PositiveBigIntegerField(default=0)
    input_events_done = models.PositiveBigIntegerField(default=0)
    input_resolved_at = models.DateTimeField(null=True, blank=True)
    # Last block whose files are in the ledger, while the input is read; and DBS's sums of the dataset when
    # all files of the ledger were last known to be valid.
    resolved_through = models.CharField(max_length=600, blank=True, default="")
    input_seen = models.JSONField(null=True, blank=True)
    # Last lookup of replicas, last file of an unfinished lookup, and since when files wait for a replica that
    # a usable site can read.
    located_at = models.DateTimeField(null=True, blank=True)
    located_through = models.BigIntegerField(null=True, blank=True)
    unplaced_since = models.DateTimeField(null=True, blank=True)
    version = models.PositiveIntegerField(default=0)
    created_at = models.DateTimeField(auto_now_add=True)
    updated_at = models.DateTimeField(auto_now=True)

    class Meta:
        constraints = [
            one_of(SplittingAlgo, field="splitting_algo", name="workflow_splitting_algo"),
            models.CheckConstraint(
                condition=Q(input_dataset__isnull=False)
                | Q(total_events__isnull=False)
                | Q(input_from__isnull=False),
                name="workflow_has_input_or_events",
            ),
            models.CheckConstraint(
                condition=Q(filter_efficiency__gt=0, filter_efficiency__lte=1),
                name="workflow_filter_efficiency",
            ),
            models.CheckConstraint(condition=Q(allocation__in=["push", "pull"]), name="workflow_allocation"),
        ]
        indexes = [
            models.Index(fields=["input_dataset"], name="workflow_by_input"),
            GinIndex(fields=["further_input_datasets"], name="workflow_by_further_input"),
        ]

    def __str__(self) -> str:
        return self.request_name

    @property
    def generates(self) -> bool:
        """Whether events come from a generator instead of files."""
        return self.input_from_id is None and self.input_dataset is None

    @property
    def pulls(self) -> bool:
        """Whether jobs request their files instead of getting them by the plan."""
        return self.allocation == "pull"

    @property
    def has_ledger(self) -> bool:
        """Whether its work is accounted by files: those it reads, or counters of a pull workflow."""
        return self.pulls or not self.generates

    @property
    def input_datasets(self) -> tuple[str, ...]:
        """The datasets to process; empty if the workflow generates events."""
        return (self.input_dataset, *self.further_input_datasets) if self.input_dataset else ()

    @property
    def written_datasets(self) -> tuple[str, ...]:
        """The output datasets, and the log dataset if there is one."""
        return (*self.output_datasets, self.log_dataset) if self.log_dataset else (*self.output_datasets,)


class Round(models.Model):
    """A planned slice of a workflow's work. The next one is planned only when this one is resolved."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    workflow = models.ForeignKey(Workflow, on_delete=models.PROTECT, related_name="rounds")
    number = models.PositiveIntegerField()
    kind = enum_field(RoundKind, default=RoundKind.PRODUCTION)
    status = enum_field(RoundStatus, default=RoundStatus.PLANNED)
    estimate = models.JSONField(default=dict)  # of the plan, to be compared with measurements
    jobs = models.PositiveIntegerField(default=0)
    input_events = models.PositiveBigIntegerField(default=0)
    planned_files = models.PositiveIntegerField(default=0)
    first_event = models.PositiveBigIntegerField(null=True, blank=True)
    last_event = models.PositiveBigIntegerField(null=True, blank=True)
    created_at = models.DateTimeField(auto_now_add=True)
    resolved_at = models.DateTimeField(null=True, blank=True)
    # Next removal of files that its jobs left on the sites' storage; null once they are removed
    sweep_at = models.DateTimeField(null=True, blank=True, default=timezone.now)
    directory_removed_at = models.DateTimeField(null=True, blank=True)
    # Pull rounds: since when no more files are lent because too many runners failed, and why
    lending_stopped_at = models.DateTimeField(null=True, blank=True)
    lending_stopped_reason = models.TextField(blank=True, default="")

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["workflow", "number"], name="round_number_once"),
            models.UniqueConstraint(
                fields=["workflow"],
                condition=Q(status=RoundStatus.PLANNED),
                name="one_open_round_per_workflow",
            ),
            models.CheckConstraint(
                condition=Q(first_event__isnull=True, last_event__isnull=True)
                | Q(first_event__lte=F("last_event")),
                name="round_event_range",
            ),
            one_of(RoundKind, field="kind", name="round_kind"),
            one_of(RoundStatus, field="status", name="round_status"),
        ]
        indexes = [
            models.Index(fields=["-created_at", "-id"], name="round_newest"),
            models.Index(fields=["sweep_at"], name="round_unswept", condition=Q(sweep_at__isnull=False)),
            models.Index(
                fields=["created_at"], name="round_on_disk", condition=Q(directory_removed_at__isnull=True)
            ),
        ]

    def __str__(self) -> str:
        return f"round {self.number}"


class DAG(models.Model):
    """A submission of a round to DAGMan. A rescue or a resume is a further DAG with a parent."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    workflow = models.ForeignKey(Workflow, on_delete=models.PROTECT, related_name="dags")
    round = models.ForeignKey(Round, on_delete=models.PROTECT, related_name="dags")
    parent = models.ForeignKey(
        "self", null=True, blank=True, on_delete=models.PROTECT, related_name="children"
    )
    kind = enum_field(DAGKind, default=DAGKind.FIRST)
    status = enum_field(DAGStatus, default=DAGStatus.READY)

    # Location on disk and in HTCondor; the token is JobBatchName, by which a lost submission is found
    submit_dir = models.TextField()
    token = models.CharField(max_length=100, unique=True)
    schedd_name = models.CharField(max_length=255, blank=True, default="")
    dagman_cluster_id = models.PositiveIntegerField(null=True, blank=True)
    rescue_dag_path = models.TextField(blank=True, default="")
    exit_code = models.IntegerField(null=True, blank=True)

    total_nodes = models.PositiveIntegerField(default=0)
    total_edges = models.PositiveIntegerField(default=0)
    node_counts = models.JSONField(default=dict)
    nodes_idle = models.PositiveIntegerField(default=0)
    nodes_running = models.PositiveIntegerField(default=0)
    nodes_done = models.PositiveIntegerField(default=0)
    nodes_failed = models.PositiveIntegerField(default=0)
    nodes_held = models.PositiveIntegerField(default=0)
    observed_at = models.DateTimeField(null=True, blank=True)

    # Version of the workflow whose priority its queued jobs have
    applied_version = models.PositiveIntegerField(default=0)
    # Sites that its landings use; null in older DAGs
    applied_sites = ArrayField(name_field(Name.SITE), null=True, blank=True)
    # Since when replicas of its files have changed without an update of its landings
    landings_stale_since = models.DateTimeField(null=True, blank=True)
    stop_requested_at = models.DateTimeField(null=True, blank=True)
    stop_reason = models.TextField(blank=True, default="")
    version = models.PositiveIntegerField(default=0)
    created_at = models.DateTimeField(auto_now_add=True)
    submitted_at = models.DateTimeField(null=True, blank=True)
    completed_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        verbose_name = "DAG"
        verbose_name_plural = "DAGs"
        constraints = [
            one_of(DAGStatus, field="status", name="dag_status"),
            one_of(DAGKind, field="kind", name="dag_kind"),
            models.UniqueConstraint(
                fields=["workflow"],
                condition=Q(status__in=sorted(LIVE_DAG)),
                name="one_live_dag_per_workflow",
            ),
            models.CheckConstraint(
                condition=Q(status=DAGStatus.READY)
                | Q(submitted_at__isnull=False)
                | Q(completed_at__isnull=False),
                name="dag_left_ready_only_by_submission_or_end",
            ),
        ]
        indexes = [
            models.Index(fields=["status"], name="dag_live", condition=Q(status__in=sorted(LIVE_DAG))),
            models.Index(fields=["-created_at", "-id"], name="dag_newest"),
        ]

    def __str__(self) -> str:
        return self.token

    @property
    def dag_file_path(self) -> str:
        """Path of the outer DAG file, the same for rescues."""
        return f"{self.submit_dir}/workflow.dag"


class DAGEvent(models.Model):
    """An event of a DAG. Append-only: a trigger refuses edits, and deletions before a month has passed."""

    dag = models.ForeignKey(DAG, on_delete=models.PROTECT, related_name="events")
    event_type = models.CharField(max_length=50)
    from_status = models.CharField(max_length=32, blank=True, default="")
    to_status = models.CharField(max_length=32, blank=True, default="")
    nodes_done = models.PositiveIntegerField(default=0)
    nodes_failed = models.PositiveIntegerField(default=0)
    nodes_running = models.PositiveIntegerField(default=0)
    detail = models.JSONField(default=dict)
    at = models.DateTimeField(auto_now_add=True)

    class Meta:
        verbose_name = "DAG event"
        ordering = ["id"]

    def __str__(self) -> str:
        return f"{self.event_type} {self.from_status} → {self.to_status}"


class MergeGroup(models.Model):
    """Landing → processing × N → merge → cleanup at one site: the unit that is watched and credited."""

    id = models.BigAutoField(primary_key=True)
    round = models.ForeignKey(Round, on_delete=models.PROTECT, related_name="groups")
    index = models.PositiveIntegerField()
    status = enum_field(GroupStatus, default=GroupStatus.PLANNED)
    site = models.CharField(max_length=100, blank=True, default="")
    jobs = models.PositiveIntegerField()
    # Nodes of its DAG that are done or failed finally, until the group is done
    nodes_done = models.PositiveIntegerField(default=0)
    nodes_failed = models.PositiveIntegerField(default=0)
    # Nodes with jobs in the queue, while the group runs
    nodes_running = models.PositiveIntegerField(default=0)
    nodes_idle = models.PositiveIntegerField(default=0)
    nodes_held = models.PositiveIntegerField(default=0)
    input_events = models.PositiveBigIntegerField(default=0)
    estimated_output_kb = models.PositiveBigIntegerField(default=0)
    events_read = models.PositiveBigIntegerField(default=0)
    events_written = models.PositiveBigIntegerField(default=0)
    metrics = models.JSONField(null=True, blank=True)
    # Parts that the group reads of files shared with other groups: {lfn: [[run, first, last], …]}
    parts = models.JSONField(default=dict, blank=True)
    dag = models.ForeignKey(DAG, null=True, blank=True, on_delete=models.PROTECT, related_name="groups")
    finished_at = models.DateTimeField(null=True, blank=True)
    last_error = models.TextField(blank=True, default="")

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["round", "index"], name="group_index_once"),
            one_of(GroupStatus, field="status", name="group_status"),
            models.CheckConstraint(condition=Q(jobs__gte=1), name="group_has_jobs"),
        ]
        indexes = [
            models.Index(fields=["round"], name="group_uncollected", condition=Q(status=GroupStatus.DONE)),
            models.Index(
                fields=["finished_at"], name="group_by_finish", condition=Q(finished_at__isnull=False)
            ),
        ]

    def __str__(self) -> str:
        return self.name

    @property
    def name(self) -> str:
        """Name of the SUBDAG and its directory."""
        return f"mg_{self.index:06d}"
