"""What the kernel itself stores: API tokens, by their hash only, and who changed what."""

from __future__ import annotations

import uuid

from django.conf import settings
from django.db import models


class ApiToken(models.Model):
    """A bearer token of one user. The clear text is shown once and never stored."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="api_tokens")
    name = models.CharField(max_length=100)
    digest = models.CharField(max_length=64, unique=True)
    created_at = models.DateTimeField(auto_now_add=True)
    expires_at = models.DateTimeField(null=True, blank=True)
    revoked_at = models.DateTimeField(null=True, blank=True)
    last_used_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        verbose_name = "API token"
        constraints = [models.UniqueConstraint(fields=["user", "name"], name="api_token_name_once")]

    def __str__(self) -> str:
        return f"{self.user_id}:{self.name}"


class AuditEvent(models.Model):
    """One change a person made that no status history tells. Append-only; a trigger refuses edits."""

    id = models.BigAutoField(primary_key=True)
    at = models.DateTimeField(auto_now_add=True)
    actor = models.CharField(max_length=250)
    action = models.CharField(max_length=50)
    target = models.CharField(max_length=250, db_index=True)
    reason = models.TextField()
    detail = models.JSONField(default=dict)
    request_id = models.CharField(max_length=100, blank=True, default="")

    class Meta:
        constraints = [
            models.CheckConstraint(condition=~models.Q(actor=""), name="audit_has_an_actor"),
            models.CheckConstraint(condition=~models.Q(reason=""), name="audit_has_a_reason"),
        ]

    def __str__(self) -> str:
        return f"{self.actor} {self.action} {self.target}"
