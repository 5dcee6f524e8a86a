"""Tables of access control: API tokens, identities, the audit; and wake-ups of gates."""

from __future__ import annotations

import secrets
import uuid

from django.conf import settings
from django.db import models
from django.utils import timezone

X509 = "x509"  # issuer of identities proven by a certificate


def new_nonce() -> str:
    """Return a value that no other audit row has."""
    return secrets.token_hex(16)


class ApiToken(models.Model):
    """A bearer token of one user. The clear text is shown once and never stored."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="api_tokens")
    name = models.CharField(max_length=100)
    digest = models.CharField(max_length=64, unique=True)
    created_at = models.DateTimeField(default=timezone.now)
    expires_at = models.DateTimeField(null=True, blank=True)
    revoked_at = models.DateTimeField(null=True, blank=True)
    last_used_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        verbose_name = "API token"
        constraints = [models.UniqueConstraint(fields=["user", "name"], name="api_token_name_once")]

    def __str__(self) -> str:
        return f"{self.user_id}:{self.name}"


class Identity(models.Model):
    """The external name of an account: subject of a certificate or of an issuer's tokens."""

    id = models.BigAutoField(primary_key=True)
    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="identities")
    issuer = models.CharField(max_length=250)  # X509, or the issuer's address
    subject = models.CharField(max_length=500)
    created_at = models.DateTimeField(default=timezone.now)
    last_used_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        verbose_name_plural = "identities"
        constraints = [models.UniqueConstraint(fields=["issuer", "subject"], name="identity_of_one_person")]

    def __str__(self) -> str:
        return self.subject


class AuditEvent(models.Model):
    """A change made by a person. A trigger permits nothing but sealing the row, once."""

    id = models.BigAutoField(primary_key=True)
    at = models.DateTimeField(default=timezone.now)
    actor = models.CharField(max_length=250)
    action = models.CharField(max_length=50)
    target = models.CharField(max_length=250)
    reason = models.TextField()
    detail = models.JSONField(default=dict)
    request_id = models.CharField(max_length=100, blank=True, default="")
    traceparent = models.CharField(max_length=55, blank=True, default="")
    nonce = models.CharField(max_length=32, blank=True, default=new_nonce)  # empty in rows of older versions
    mark = models.CharField(max_length=64, blank=True, default="")  # a keyed hash of all of the above
    number = models.PositiveBigIntegerField(null=True, unique=True)  # its place in the chain, once sealed
    seal = models.CharField(max_length=64, blank=True, default="")

    class Meta:
        indexes = [
            models.Index(fields=["id"], name="audit_unsealed", condition=models.Q(number__isnull=True)),
            models.Index(fields=["-at", "-id"], name="audit_by_time"),
            models.Index(fields=["actor", "-at", "-id"], name="audit_by_actor"),
            models.Index(fields=["action", "-at", "-id"], name="audit_by_action"),
            models.Index(fields=["actor", "action", "-at", "-id"], name="audit_by_actor_and_action"),
            models.Index(fields=["target", "-at", "-id"], name="audit_by_target"),
        ]
        constraints = [
            models.CheckConstraint(condition=~models.Q(actor=""), name="audit_has_an_actor"),
            models.CheckConstraint(condition=~models.Q(reason=""), name="audit_has_a_reason"),
            models.UniqueConstraint(fields=["nonce"], condition=~models.Q(nonce=""), name="audit_nonce_once"),
        ]

    def __str__(self) -> str:
        return f"{self.actor} {self.action} {self.target}"


class GateNews(models.Model):
    """An event that may open a gate. The sweep removes the row and makes the requests at the gate due."""

    gate = models.CharField(max_length=32)

    def __str__(self) -> str:
        return self.gate


class AuditHead(models.Model):
    """The end of the audit's chain, in one row. Rows up to it are never sealed again."""

    id = models.PositiveSmallIntegerField(primary_key=True, default=1)
    number = models.PositiveBigIntegerField()
    seal = models.CharField(max_length=64)
    mark = models.CharField(max_length=64)  # a keyed hash of both
    shipped = models.PositiveBigIntegerField(default=0)  # the last number sent to WMS2_AUDIT_HEAD_URL
    # The last number that is in files (`audit_archive`), its seal, the time of the latest of these rows, and
    # a keyed hash of the three. Rows up to it may be deleted.
    dropped = models.PositiveBigIntegerField(default=0, db_default=0)
    dropped_seal = models.CharField(max_length=64, blank=True, default="", db_default="")
    dropped_at = models.DateTimeField(null=True, blank=True)
    dropped_mark = models.CharField(max_length=64, blank=True, default="", db_default="")

    class Meta:
        constraints = [models.CheckConstraint(condition=models.Q(id=1), name="audit_has_one_head")]

    def __str__(self) -> str:
        return f"{self.number}:{self.seal}"
