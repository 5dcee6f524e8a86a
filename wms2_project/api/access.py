"""Account and API tokens of the caller. Admins see and revoke all tokens."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Annotated, Any, ClassVar

from django.contrib.auth.models import User
from django.db.models import QuerySet
from django.utils import timezone
from django_filters import rest_framework as filters
from drf_spectacular.utils import extend_schema, extend_schema_view
from rest_framework import serializers
from rest_framework.exceptions import PermissionDenied
from rest_framework.request import Request as HttpRequest
from rest_framework.response import Response

from wms2_project.access.bearer import Bearer
from wms2_project.access.roles import Role, actor_of, groups_of, role_of, sites_of
from wms2_project.access.tokens import digest_of, issue_token, revoke_token
from wms2_project.api.bodies import answers
from wms2_project.api.views import ApiView, ListView, ReasonInput, parsed
from wms2_project.errors import InvalidInput, NotFound
from wms2_project.models import ApiToken


@dataclass(frozen=True, slots=True)
class Me:
    """Account of the caller."""

    username: str
    actor: Annotated[str, "Your name in the audit."]
    role: str
    sites: Annotated[list[str], "Sites you administer."]
    groups: Annotated[list[str], "Groups you may submit requests for."]


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

    token = serializers.SerializerMethodField(help_text="Clear text of the token. It is not shown again.")

    class Meta(TokenRow.Meta):
        fields = (*TokenRow.Meta.fields, "token")
        read_only_fields = fields

    def get_token(self, row: ApiToken) -> str:
        """Return the clear text, which is not stored."""
        return str(self.context["clear_text"])


class TokenInput(ReasonInput):
    """Input of a new token. An older token of the same name stops working."""

    name = serializers.RegexField(r"^[A-Za-z0-9][A-Za-z0-9_.@ -]*$", max_length=100)
    days = serializers.IntegerField(
        min_value=1, max_value=3650, required=False, help_text="Absent: valid until revoked."
    )
    user = serializers.CharField(
        max_length=150,
        required=False,
        help_text="Account whose rights the token has; admins only. Absent: yours.",
    )


class TokenFilter(filters.FilterSet):  # type: ignore[misc]
    """Filters of tokens."""

    user = filters.CharFilter(field_name="user__username")


class MeView(ApiView):
    """Account of the caller."""

    roles: ClassVar[dict[str, Role]] = {"GET": Role.VIEWER}

    @answers("me")
    def get(self, request: HttpRequest) -> Me:
        """Return the caller's account, roles, sites and groups."""
        return Me(
            username=request.user.get_username(),
            actor=actor_of(request),
            role=role_of(request.user).name.lower(),
            sites=sorted(sites_of(request.user)),
            groups=sorted(groups_of(request.user)),
        )


@extend_schema_view(
    get=extend_schema(
        operation_id="tokens_list", description="Your tokens, newest first; for admins, all tokens."
    )
)
class TokenListView(ListView):
    """API tokens."""

    roles: ClassVar[dict[str, Role]] = {"GET": Role.VIEWER, "POST": Role.VIEWER}
    queryset = ApiToken.objects.select_related("user")
    serializer_class = TokenRow
    filterset_class = TokenFilter

    def get_queryset(self) -> QuerySet[ApiToken]:
        return tokens_seen_by(self.request)

    @extend_schema(operation_id="tokens_issue", request=TokenInput, responses={201: NewTokenBody})
    def post(self, request: HttpRequest) -> Response:
        """Create a token. Its text is returned only once."""
        body = parsed(TokenInput, request.data)
        text = issue_token(
            user=_owner(request, body.get("user", "")),
            name=body["name"],
            expires_at=_limited(request, body.get("days")),
            actor=actor_of(request),
            reason=body["reason"],
        )
        made = ApiToken.objects.select_related("user").get(digest=digest_of(text))
        return Response(NewTokenBody(made, context={"clear_text": text}).data, status=201)


class TokenView(ApiView):
    """One API token."""

    roles: ClassVar[dict[str, Role]] = {"GET": Role.VIEWER, "DELETE": Role.VIEWER}

    @extend_schema(operation_id="tokens_get", responses=TokenRow)
    def get(self, request: HttpRequest, token_id: str) -> Response:
        """Return creation, expiry and last use of the token."""
        return Response(TokenRow(_token(request, token_id)).data)

    @extend_schema(operation_id="tokens_revoke", request=ReasonInput, responses={200: TokenRow})
    def delete(self, request: HttpRequest, token_id: str) -> Response:
        """Revoke the token with immediate effect."""
        token = _token(request, token_id)
        reason = parsed(ReasonInput, request.data)["reason"]
        revoke_token(token=token, actor=actor_of(request), reason=reason)
        token.refresh_from_db()
        return Response(TokenRow(token).data)


def tokens_seen_by(request: HttpRequest) -> QuerySet[ApiToken]:
    """Return the caller's tokens; for admins, all."""
    rows = ApiToken.objects.select_related("user")
    return rows if role_of(request.user) >= Role.ADMIN else rows.filter(user_id__in=[request.user.pk])


def _token(request: HttpRequest, token_id: str) -> ApiToken:
    token = tokens_seen_by(request).filter(pk=token_id).first()
    if token is None:
        raise NotFound("You have no such token", cure="See GET /api/v1/tokens for your tokens")
    return token


def _owner(request: HttpRequest, username: str) -> User:
    if not username or username == request.user.get_username():
        return User.objects.get(username=request.user.get_username())
    if role_of(request.user) < Role.ADMIN:
        raise PermissionDenied("Only admins can create tokens for others.")
    user = User.objects.filter(username=username, is_active=True).first()
    if user is None:
        raise InvalidInput("no token was created", fields={"user": f"there is no {username}"})
    return user


def _limited(request: HttpRequest, days: int | None) -> Any:
    """Return the expiry of the new token: never later than that of the token used for the call."""
    if isinstance(request.auth, Bearer):
        raise PermissionDenied(
            "A bearer token of an issuer cannot create API tokens. Log in, or use an API token."
        )
    ends = timezone.now() + timedelta(days=days) if days else None
    limit = request.auth.expires_at if isinstance(request.auth, ApiToken) else None
    return min((end for end in (ends, limit) if end is not None), default=None)
