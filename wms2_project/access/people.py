"""Accounts of people and robots, and the certificates and token subjects linked to them."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from datetime import datetime

from django.contrib.auth.models import Group, User
from django.db import IntegrityError, transaction

from wms2_project.access import audit
from wms2_project.access.bearer import Bearer
from wms2_project.access.proxies import normal_dn, without_proxy
from wms2_project.access.roles import is_role
from wms2_project.access.tokens import NOTE_USE_EVERY
from wms2_project.errors import Conflict, InvalidInput
from wms2_project.models import X509, Identity


def person_of_certificate(dn: str, *, now: datetime) -> User | None:
    """Return the account of a certificate. A grid proxy counts as the certificate that made it."""
    for name in dict.fromkeys((dn, without_proxy(dn))):
        if identity := _identity(X509, name):
            return _noted(identity, now)
    return None


def person_of_bearer(bearer: Bearer, *, now: datetime) -> User | None:
    """Return the account of a token's subject, created at its first call. The token gives the roles."""
    identity = _identity(bearer.issuer, bearer.subject) or _first_seen(bearer)
    user = _noted(identity, now)
    if user is not None:
        user.granted_roles = bearer.roles  # type: ignore[attr-defined]
    return user


def sign_in(bearer: Bearer, *, now: datetime) -> User | None:
    """Return the account that logs in to the console, with the roles of the issuer's groups."""
    user = person_of_bearer(bearer, now=now)
    if user is None:
        return None
    if not user.is_staff:
        user.is_staff = True
        user.save(update_fields=["is_staff"])
    if set(user.groups.values_list("name", flat=True)) != bearer.roles:
        set_roles(user=user, roles=bearer.roles, actor="system:login", reason=f"groups at {bearer.issuer}")
    return user


def link_identity(*, user: User, issuer: str, subject: str, actor: str, reason: str) -> Identity:
    """Link a certificate or token subject to an account."""
    subject = normal_dn(subject) if issuer == X509 else subject
    if not subject:
        raise InvalidInput("the identity was not linked", fields={"subject": "not a usable name"})
    try:
        with transaction.atomic():
            identity = Identity.objects.create(user=user, issuer=issuer, subject=subject)
            audit.record(actor=actor, action="link", target=_target(user), reason=reason, subject=subject)
    except IntegrityError as error:
        raise Conflict(f"{subject} is already linked", cure="Unlink it there first") from error
    return identity


def unlink_identity(*, identity: Identity, actor: str, reason: str) -> None:
    with transaction.atomic():
        identity.delete()
        audit.record(
            actor=actor, action="unlink", target=_target(identity.user), reason=reason,
            subject=identity.subject,
        )  # fmt: skip


def set_roles(*, user: User, roles: Iterable[str], actor: str, reason: str) -> None:
    """Replace the roles of an account. `site_admin:T2_CH_CERN` is the role of one site's admin."""
    wanted = sorted(set(roles))
    if wrong := [role for role in wanted if not is_role(role)]:
        raise InvalidInput(
            "the roles were not changed", fields={"roles": f"there is no role {', '.join(wrong)}"}
        )
    with transaction.atomic():
        user.groups.set([Group.objects.get_or_create(name=role)[0] for role in wanted])
        audit.record(actor=actor, action="set roles", target=_target(user), reason=reason, roles=wanted)


def _identity(issuer: str, subject: str) -> Identity | None:
    return Identity.objects.select_related("user").filter(issuer=issuer, subject=subject).first()


def _noted(identity: Identity, now: datetime) -> User | None:
    if not identity.user.is_active:
        return None
    if identity.last_used_at is None or now - identity.last_used_at > NOTE_USE_EVERY:
        Identity.objects.filter(pk=identity.pk).update(last_used_at=now)
    return identity.user


def _first_seen(bearer: Bearer) -> Identity:
    """Create an account without password and roles. Its name ends in a hash, so that it is unique."""
    readable = re.sub(r"[^A-Za-z0-9_.-]+", "-", bearer.name).strip("-._")[:60] or "person"
    unique = hashlib.sha256(f"{bearer.issuer} {bearer.subject}".encode()).hexdigest()[:12]
    try:
        with transaction.atomic():
            user = User.objects.create_user(f"{readable}-{unique}", first_name=bearer.name[:150])
            identity = Identity.objects.create(user=user, issuer=bearer.issuer, subject=bearer.subject)
            audit.record(
                actor=f"user:{user.username}", action="first seen", target=_target(user),
                reason=f"a token of {bearer.issuer}", subject=bearer.subject,
            )  # fmt: skip
    except IntegrityError:  # a concurrent first call created it
        return Identity.objects.select_related("user").get(issuer=bearer.issuer, subject=bearer.subject)
    return identity


def _target(user: User) -> str:
    """Return the account's name in the audit. A request may have the same name."""
    return f"person {user.username}"
