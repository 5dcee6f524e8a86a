"""Stored failures: clusters of similar ones, and replicas that could not be read."""

from __future__ import annotations

from django.contrib.postgres.fields import ArrayField
from django.db import models

from sandbox.failure import PAYLOAD
from wms2_project.fields import name_field
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
    """A file that a workflow could not read at a site.

    Other workflows avoid this replica for a while, unless only a payload reported it.
    """

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
