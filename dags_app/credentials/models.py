"""Records of the tokens of jobs. The tokens themselves are only in files."""

from __future__ import annotations

from django.db import models

from dags_app.credentials.scopes import TokenLife


class JobToken(models.Model):
    """The token of a workflow with a live DAG: its scopes, its end, and the error of the last renewal.

    The row is written before the file and removed after it, so that no file is left without a row.
    """

    workflow = models.OneToOneField(
        "dags_app.Workflow", primary_key=True, on_delete=models.CASCADE, related_name="job_token"
    )
    scope = models.TextField(blank=True, default="")
    expires_at = models.DateTimeField(null=True, blank=True)  # None: there has been no token yet
    lifetime_sec = models.PositiveIntegerField(default=0)
    error = models.TextField(blank=True, default="")  # of the last attempt, if it failed
    remedy = models.TextField(blank=True, default="")
    failing_since = models.DateTimeField(null=True, blank=True)
    updated_at = models.DateTimeField(auto_now=True)

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=models.Q(error="") ^ models.Q(failing_since__isnull=False),
                name="job_token_failure_has_a_start",
            )
        ]

    def __str__(self) -> str:
        return f"token of {self.workflow_id}"

    @property
    def life(self) -> TokenLife:
        """The end and the total lifetime of the token."""
        return TokenLife(self.expires_at, self.lifetime_sec)
