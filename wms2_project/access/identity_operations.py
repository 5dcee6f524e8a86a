"""Operations on identities: certificates and token subjects linked to accounts."""

from __future__ import annotations

from django.contrib.auth.models import User
from rest_framework import serializers

from wms2_project.access.people import link_identity, unlink_identity
from wms2_project.access.roles import Role
from wms2_project.api.views import ReasonInput
from wms2_project.errors import InvalidInput, NotFound
from wms2_project.models import X509, Identity
from wms2_project.operations import Call, Done, Operation, Target, Weight


class IdentityInput(ReasonInput):
    """Input of a new identity."""

    user = serializers.CharField(max_length=150, help_text="Account that the identity logs in to.")
    subject = serializers.CharField(
        max_length=500, help_text="Subject of the certificate (/DC=…/CN=…), or `sub` of the token."
    )
    issuer = serializers.CharField(
        max_length=250, default=X509,
        help_text="x509 for a certificate (the default), otherwise the URL of the token issuer.",
    )  # fmt: skip


class IdentityRow(serializers.ModelSerializer[Identity]):
    """A certificate or token subject and its account."""

    user = serializers.CharField(source="user.username", read_only=True)

    class Meta:
        model = Identity
        fields = ("id", "user", "issuer", "subject", "created_at", "last_used_at")
        read_only_fields = fields


def identity_by_id(identity_id: int) -> Identity:
    """Return the identity; raise NotFound if there is none."""
    identity = Identity.objects.select_related("user").filter(pk=identity_id).first()
    if identity is None:
        raise NotFound(
            f"There is no identity {identity_id}", cure="See GET /api/v1/identities for the linked ones"
        )
    return identity


def _link(call: Call) -> Done:
    username = call.values["user"]
    user = User.objects.filter(username=username, is_active=True).first()
    if user is None:
        problem = f"there is no active account {username}"
        raise InvalidInput("the identity was not linked", fields={"user": problem})
    made = link_identity(
        user=user, issuer=call.values["issuer"], subject=call.values["subject"], **call.signed
    )
    return Done(made, f"{made} is linked to {user}.")


def _unlink(call: Call) -> Done:
    gone = IdentityRow(call.row).data  # the row loses its id when it is deleted
    unlink_identity(identity=call.row, **call.signed)
    return Done(call.row, f"{call.row} is unlinked.", gone)


IDENTITIES = Target(
    kind="identity",
    route="identities",
    body=IdentityRow,
    render=lambda call, done: IdentityRow(done.row).data,
)
IDENTITY = Target(
    kind="identity",
    route="identities/<int:identity_id>",
    find=identity_by_id,
    key=int,
    body=IdentityRow,
    render=lambda call, done: done.more,
)
LINK = Operation(
    target=IDENTITIES,
    name="link",
    label="Link an identity",
    effect="Calls with this certificate or token subject have the rights of the account.",
    input=IdentityInput,
    run=_link,
    role=Role.ADMIN,
    path="",
    status=201,
    checks_version=False,
    icon="link",
    weight=Weight.USUAL,
)
UNLINK = Operation(
    target=IDENTITY,
    name="unlink",
    label="Unlink",
    effect="The certificate or token subject no longer leads to the account.",
    run=_unlink,
    role=Role.ADMIN,
    method="DELETE",
    path="",
    problems=(),
    checks_version=False,
    icon="link_off",
    weight=Weight.FINAL,
)
IDENTITY_OPERATIONS = (LINK, UNLINK)
