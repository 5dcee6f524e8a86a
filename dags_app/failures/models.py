"""Records of failures: clusters of alike ones, copies of files that could not be read, and those copies
that were proved bad.
"""

from __future__ import annotations

from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import F, Q

from cms.types import ReplicaVerdict
from sandbox.failure import PAYLOAD
from wms2_project.fields import choices, name_field
from wms2_project.grammar import Name


class FailureCluster(models.Model):
    """Failures of one cause in one DAG at one site, stored when the DAG has ended."""

    id = models.BigAutoField(primary_key=True)
    dag = models.ForeignKey("dags_app.DAG", on_delete=models.PROTECT, related_name="failures")
    workflow = models.ForeignKey("dags_app.Workflow", on_delete=models.PROTECT, related_name="failures")
    fingerprint = models.CharField(max_length=16)  # of the cause, see dags_app.failures.clusters
    message = models.TextField()
    exit_code = models.IntegerField()
    step = models.CharField(max_length=100, blank=True, default="")
    category = models.CharField(max_length=32)
    source = models.CharField(max_length=16, default=PAYLOAD)  # who set the exit code
    site = models.CharField(max_length=100, blank=True, default="")
    jobs = models.PositiveIntegerField()
    groups = ArrayField(models.CharField(max_length=20), default=list)
    bad_files = ArrayField(name_field(Name.LFN), default=list, blank=True)
    jobs_at_site = models.PositiveIntegerField()
    failed_elsewhere = models.PositiveIntegerField()
    jobs_elsewhere = models.PositiveIntegerField()
    memory_mb = models.PositiveIntegerField(default=0)
    resource = models.CharField(max_length=20, blank=True, default="")  # what the jobs ran out of
    limit = models.CharField(max_length=200, blank=True, default="")  # what ended the retries
    example = models.TextField(blank=True, default="")
    node = models.CharField(max_length=100, blank=True, default="")
    log_tail = models.TextField(blank=True, default="")
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["dag", "fingerprint", "site"], name="failure_cluster_once"),
        ]
        indexes = [models.Index(fields=["-created_at"], name="failure_cluster_newest")]

    def __str__(self) -> str:
        return f"{self.jobs} × {self.exit_code} at {self.site or 'no site'}"


class BadReplica(models.Model):
    """A file that one workflow could not read at one site. Other workflows go by `QuarantinedReplica`."""

    id = models.BigAutoField(primary_key=True)
    workflow = models.ForeignKey("dags_app.Workflow", on_delete=models.PROTECT, related_name="bad_replicas")
    round = models.ForeignKey("dags_app.Round", on_delete=models.PROTECT, related_name="bad_replicas")
    lfn = name_field(Name.LFN)
    site = models.CharField(max_length=100)
    exit_code = models.IntegerField()
    source = models.CharField(max_length=16, default=PAYLOAD)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["workflow", "lfn", "site"], name="bad_replica_once"),
        ]
        indexes = [models.Index(fields=["created_at"], name="bad_replica_newest")]

    def __str__(self) -> str:
        return f"{self.lfn} at {self.site}"


class QuarantinedReplica(models.Model):
    """A copy of a file that was proved bad. While it is in force, every request reads another copy.

    In force: not ended and not expired. The proof is what the last job reported that found it bad.
    """

    id = models.BigAutoField(primary_key=True)
    lfn = name_field(Name.LFN)
    site = models.CharField(max_length=100)
    storages = ArrayField(name_field(Name.RSE), default=list, blank=True)  # of the site, that held it then
    exit_code = models.IntegerField()
    proof = models.TextField()  # what the job found: both checksums or sizes, or the storage's answer
    workflow = models.ForeignKey("dags_app.Workflow", on_delete=models.PROTECT, related_name="quarantined")
    dag = models.ForeignKey("dags_app.DAG", on_delete=models.PROTECT, related_name="quarantined")
    node = models.CharField(max_length=100, blank=True, default="")
    created_at = models.DateTimeField()
    proved_at = models.DateTimeField()  # by the last DAG
    expires_at = models.DateTimeField()
    ended_at = models.DateTimeField(null=True, blank=True)
    ended_by = models.CharField(max_length=250, blank=True, default="")
    end_reason = models.TextField(blank=True, default="")
    # The declaration to Rucio, by policy: when to try it next, and what came of it
    declare_at = models.DateTimeField(null=True, blank=True)
    declared_as = models.CharField(
        max_length=32, blank=True, default="", choices=[("", "not declared"), *choices(ReplicaVerdict)]
    )
    declared_at = models.DateTimeField(null=True, blank=True)
    declare_error = models.TextField(blank=True, default="")

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["lfn", "site"], condition=Q(ended_at__isnull=True), name="quarantined_once"
            ),
            models.CheckConstraint(
                condition=Q(expires_at__gt=F("created_at")), name="quarantine_ends_after_it_begins"
            ),
            models.CheckConstraint(
                condition=Q(ended_at__isnull=True) | ~Q(ended_by=""), name="quarantine_end_names_who"
            ),
            models.CheckConstraint(
                condition=Q(declared_as__in=["", *(verdict.value for verdict in ReplicaVerdict)]),
                name="quarantine_declared_as",
            ),
        ]
        indexes = [
            models.Index(fields=["-created_at", "-id"], name="quarantine_newest"),
            models.Index(
                fields=["declare_at"], name="quarantine_undeclared", condition=Q(declare_at__isnull=False)
            ),
        ]

    def __str__(self) -> str:
        return f"{self.lfn} at {self.site}"
