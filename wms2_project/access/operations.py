"""Operations on API tokens."""

from __future__ import annotations

from datetime import timedelta
from uuid import UUID

from django.contrib.auth.models import User
from django.db.models import QuerySet
from rest_framework import serializers

from wms2_project.access.bearer import Bearer
from wms2_project.access.roles import Role
from wms2_project.access.tokens import digest_of, issue_token, revoke_token
from wms2_project.api.views import ReasonInput
from wms2_project.errors import InvalidInput, NotAllowed, NotFound
from wms2_project.models import ApiToken
from wms2_project.operations import Call, Caller, Done, Operation, Target, Weight


class TokenInput(ReasonInput):
    """Input of a new token. An older token of the same name stops working."""

    name = serializers.RegexField(
        r"^[A-Za-z0-9][A-Za-z0-9_.@ -]*$", max_length=100,
        help_text="Purpose of the token. An older token of the same name stops working.",
    )  # fmt: skip
    days = serializers.IntegerField(
        min_value=1, max_value=3650, required=False, label="Valid for days",
        help_text="Absent: valid until revoked.",
    )  # fmt: skip
    user = serializers.CharField(
        max_length=150, required=False,
        help_text="Account whose rights the token has; admins only. Absent: yours.",
    )  # fmt: skip


class TokenRow(serializers.ModelSerializer[ApiToken]):
    """An API token, without its text, which is shown once at creation."""

    user = serializers.CharField(source="user.username", read_only=True)

    class Meta:
        model = ApiToken
        fields: tuple[str, ...] = (
            "id", "user", "name", "created_at", "expires_at", "revoked_at", "last_used_at",
        )  # fmt: skip
        read_only_fields = fields


class NewTokenBody(TokenRow):
    """A new token."""

    token = serializers.CharField(read_only=True, help_text="Clear text of the token. It is not shown again.")

    class Meta(TokenRow.Meta):
        fields = (*TokenRow.Meta.fields, "token")
        read_only_fields = fields


def tokens_seen_by(caller: Caller) -> QuerySet[ApiToken]:
    """Return the caller's tokens; for admins, all."""
    rows = ApiToken.objects.select_related("user")
    return rows if caller.role >= Role.ADMIN else rows.filter(user__username=caller.username)


def token_in(rows: QuerySet[ApiToken], token_id: UUID | str) -> ApiToken:
    """Return the token with this id; raise NotFound if it is not among the rows."""
    token = rows.filter(pk=token_id).first()
    if token is None:
        raise NotFound("You have no such token", cure="See GET /api/v1/tokens for your tokens")
    return token


def _check_seen(call: Call) -> None:
    token_in(tokens_seen_by(call.caller), call.row.pk)


def _check_issuer(call: Call) -> None:
    caller = call.caller
    if isinstance(caller.auth, Bearer):
        raise NotAllowed(
            "A bearer token of an issuer cannot create API tokens", cure="Log in, or use an API token"
        )
    if caller.role < Role.ADMIN and call.values.get("user", caller.username) != caller.username:
        raise NotAllowed("Only admins can create tokens for others")


def _issue(call: Call) -> Done:
    """Create a token that does not outlive the token used for the call."""
    username = call.values.get("user", call.caller.username)
    user = User.objects.filter(username=username, is_active=True).first()
    if user is None:
        raise InvalidInput("no token was created", fields={"user": f"there is no {username}"})
    days, used = call.values.get("days"), call.caller.auth
    ends = [call.now + timedelta(days=days)] if days else []
    ends += [used.expires_at] if isinstance(used, ApiToken) and used.expires_at else []
    text = issue_token(user=user, name=call.values["name"], expires_at=min(ends, default=None), **call.signed)
    token = ApiToken.objects.select_related("user").get(digest=digest_of(text))
    message = f"The token {token.name} of {user} is created. Send it as Authorization: Bearer <token>."
    return Done(token, message, {"token": text})


def _revoke(call: Call) -> Done:
    revoke_token(token=call.row, **call.signed)
    call.row.refresh_from_db()
    return Done(call.row, f"The token {call.row.name} of {call.row.user} is revoked.")


TOKENS = Target(
    kind="token",
    route="tokens",
    body=NewTokenBody,
    render=lambda call, done: {**TokenRow(done.row).data, **done.more},
    guarded="below admins for their own account only",
)
TOKEN = Target(
    kind="token",
    route="tokens/<uuid:token_id>",
    find=lambda token_id: token_in(ApiToken.objects.select_related("user"), token_id),
    key=UUID,
    body=TokenRow,
    render=lambda call, done: TokenRow(done.row).data,
    guard=_check_seen,
    guarded="below admins for their own tokens only",
)
ISSUE = Operation(
    target=TOKENS,
    name="issue",
    label="Issue a token",
    effect="A token with the rights of an account is created. Its text is shown only once.",
    input=TokenInput,
    run=_issue,
    role=Role.VIEWER,
    path="",
    guard=_check_issuer,
    status=201,
    reveals="token",
    problems=(),
    checks_version=False,
    icon="key",
    weight=Weight.USUAL,
)
REVOKE = Operation(
    target=TOKEN,
    name="revoke",
    label="Revoke",
    effect="The token stops working at once.",
    run=_revoke,
    role=Role.VIEWER,
    method="DELETE",
    path="",
    problems=(),
    checks_version=False,
    icon="key_off",
    weight=Weight.FINAL,
)
TOKEN_OPERATIONS = (ISSUE, REVOKE)
