"""Outputs: datasets, their blocks of merged files, and the Rucio rules that protect them."""

from __future__ import annotations

import uuid

from django.db import models
from django.db.models import Q

from dags_app.models import MergeGroup, Workflow
from outputs_app.pipeline import MOVING, Tier, statuses_of
from outputs_app.states import BlockStatus, DatasetStatus, RuleKind
from wms2_project.fields import enum_field, name_field, one_of
from wms2_project.grammar import Name
from wms2_project.leases import Leased


class DatasetClaim(models.Model):
    """The right of a workflow to write into a dataset: see `outputs_app.dataset_ownership`.

    A name belongs to one chain of versions. The first claim of the chain owns it, later versions of the
    same request share it, and other requests need an operator's permission.
    """

    id = models.BigAutoField(primary_key=True)
    workflow = models.ForeignKey(Workflow, on_delete=models.PROTECT, related_name="claims")
    dataset_name = name_field(Name.DATASET)
    chain = models.ForeignKey(Workflow, on_delete=models.PROTECT, related_name="+")  # its first version
    is_owner = models.BooleanField(default=False)
    claimed_at = models.DateTimeField(null=True, blank=True)  # null: a draft with a permission
    released_at = models.DateTimeField(null=True, blank=True)  # never used in DBS: the name is free
    checked_at = models.DateTimeField(null=True, blank=True)  # last query of DBS for this name
    conflict = models.TextField(blank=True, default="")  # what DBS has under the name that is not WMS2's
    registering_at = models.DateTimeField(null=True, blank=True)  # before the first block is sent to DBS
    allowed_by = models.CharField(max_length=250, blank=True, default="")
    allowed_reason = models.TextField(blank=True, default="")

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["workflow", "dataset_name"], name="dataset_claim_once"),
            models.UniqueConstraint(
                fields=["dataset_name"],
                condition=Q(is_owner=True, released_at__isnull=True),
                name="one_owner_per_dataset",
            ),
            models.CheckConstraint(
                condition=Q(allowed_by="") | ~Q(allowed_reason=""), name="sharing_has_a_reason"
            ),
        ]
        indexes = [
            models.Index(fields=["dataset_name"], name="dataset_claim_name"),
            models.Index(fields=["dataset_name"], name="dataset_claim_guest", condition=Q(is_owner=False)),
        ]

    def __str__(self) -> str:
        return self.dataset_name

    @property
    def is_refused(self) -> bool:
        """Whether DBS has other content under the name and sharing is not allowed (`BLOCKED` in queries)."""
        return bool(self.conflict) and not self.allowed_by


class OutputDataset(models.Model):
    """A dataset that a workflow produces."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    workflow = models.ForeignKey(Workflow, on_delete=models.PROTECT, related_name="datasets")
    dataset_name = name_field(Name.DATASET)
    status = enum_field(DatasetStatus, default=DatasetStatus.ACTIVE)
    in_dbs = models.BooleanField(default=True)  # false: in Rucio only, such as log files
    lifetime_days = models.PositiveIntegerField(null=True, blank=True)  # of the rules at the source
    primary_type = models.CharField(max_length=32, blank=True, default="")  # that of its input
    announced_at = models.DateTimeField(null=True, blank=True)  # VALID in DBS since then
    invalidated_at = models.DateTimeField(null=True, blank=True)  # or removed or released
    invalidation_reason = models.TextField(blank=True, default="")
    created_at = models.DateTimeField(auto_now_add=True)
    updated_at = models.DateTimeField(auto_now=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["workflow", "dataset_name"], name="output_dataset_once"),
            one_of(DatasetStatus, field="status", name="output_dataset_status"),
        ]
        indexes = [
            models.Index(fields=["-created_at", "-id"], name="output_dataset_newest"),
            models.Index(fields=["dataset_name"], name="output_dataset_name"),
        ]

    def __str__(self) -> str:
        return self.dataset_name


class OutputBlock(Leased):
    """Merged files of one dataset at one site, registered and protected together."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    dataset = models.ForeignKey(OutputDataset, on_delete=models.PROTECT, related_name="blocks")
    block_name = name_field(Name.BLOCK, unique=True)
    site = models.CharField(max_length=100)
    rse = models.CharField(max_length=100)
    status = enum_field(BlockStatus, default=BlockStatus.PENDING)
    status_since = models.DateTimeField(auto_now_add=True)
    closed_at = models.DateTimeField(null=True, blank=True)  # open blocks still take files
    dbs_registered_at = models.DateTimeField(null=True, blank=True)
    failing_since = models.DateTimeField(null=True, blank=True)  # time of the first error in a row
    last_transfer_check = models.DateTimeField(null=True, blank=True)
    announced_at = models.DateTimeField(null=True, blank=True)
    compared_at = models.DateTimeField(null=True, blank=True)  # last agreement with DBS and Rucio
    invalidated_at = models.DateTimeField(null=True, blank=True)
    invalidation_reason = models.TextField(blank=True, default="")
    version = models.PositiveIntegerField(default=0)
    created_at = models.DateTimeField(auto_now_add=True)
    updated_at = models.DateTimeField(auto_now=True)

    class Meta:
        constraints = [
            one_of(BlockStatus, field="status", name="output_block_status"),
            models.UniqueConstraint(
                fields=["dataset", "site"],
                condition=Q(closed_at__isnull=True),
                name="one_open_block_per_site",
            ),
            models.CheckConstraint(
                condition=Q(closed_at__isnull=False) | Q(status__in=["pending", "failed", "invalidated"]),
                name="only_closed_blocks_are_registered",
            ),
        ]
        indexes = [
            models.Index(
                fields=["next_check_at"], name="output_block_due", condition=Q(status__in=sorted(MOVING))
            ),
            # Separate indexes for the few urgent blocks: those whose transfers are polled are many.
            models.Index(
                fields=["next_check_at"],
                name="output_block_protect",
                condition=Q(status__in=statuses_of(Tier.PROTECT)),
            ),
            models.Index(
                fields=["next_check_at"],
                name="output_block_request",
                condition=Q(status__in=statuses_of(Tier.REQUEST)),
            ),
            models.Index(fields=["-created_at", "-id"], name="output_block_newest"),
        ]

    def __str__(self) -> str:
        return self.block_name


class OutputFile(models.Model):
    """A merged file, as described by the group's manifest."""

    id = models.BigAutoField(primary_key=True)
    block = models.ForeignKey(OutputBlock, on_delete=models.PROTECT, related_name="files")
    group = models.ForeignKey(MergeGroup, on_delete=models.PROTECT, related_name="outputs")
    lfn = name_field(Name.LFN, unique=True)
    size_bytes = models.PositiveBigIntegerField()
    events = models.PositiveBigIntegerField()
    adler32 = models.CharField(max_length=8)
    lumis = models.JSONField(default=list)
    lumi_events = models.JSONField(default=list)  # [[run, first lumi, last lumi, events in each], …]
    parents = models.JSONField(default=list)
    checked_at = models.DateTimeField(null=True, blank=True)  # compared with what the storage has
    checked_content = models.BooleanField(default=False)  # opened and counted, not only size and checksum
    check_problem = models.TextField(blank=True, default="")  # how it differs from the manifest
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        indexes = [models.Index(fields=["-created_at"], name="output_file_newest")]

    def __str__(self) -> str:
        return self.lfn


class RucioRule(models.Model):
    """A rule that keeps a block at a storage. The row is the intent; `rule_id` shows that the rule exists."""

    id = models.BigAutoField(primary_key=True)
    block = models.ForeignKey(OutputBlock, on_delete=models.PROTECT, related_name="rules")
    kind = enum_field(RuleKind)
    rse_expression = models.CharField(max_length=255)
    copies = models.PositiveSmallIntegerField(default=1)
    rule_id = models.CharField(max_length=64, blank=True, default="")
    state = models.CharField(max_length=32, blank=True, default="")
    state_since = models.DateTimeField(null=True, blank=True)
    error = models.TextField(blank=True, default="")
    created_at = models.DateTimeField(auto_now_add=True)
    deleted_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["block", "kind", "rse_expression"], name="rucio_rule_once"),
            one_of(RuleKind, field="kind", name="rucio_rule_kind"),
        ]

    def __str__(self) -> str:
        return f"{self.kind} {self.rse_expression}"


class ReqMgr2Report(models.Model):
    """The last status of a workflow that ReqMgr2 accepted, and the next attempt."""

    workflow = models.OneToOneField(
        Workflow, primary_key=True, on_delete=models.PROTECT, related_name="reqmgr2_report"
    )
    reported = models.CharField(max_length=32, blank=True, default="", db_column="told")
    attempt = models.PositiveIntegerField(default=0)
    last_error = models.TextField(blank=True, default="")
    next_check_at = models.DateTimeField()

    def __str__(self) -> str:
        return f"{self.workflow_id} {self.reported}"
