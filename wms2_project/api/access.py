"""Account and API tokens of the caller; for admins, all tokens and the identities of accounts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

from django.db.models import QuerySet
from django_filters import rest_framework as filters
from drf_spectacular.utils import extend_schema
from rest_framework.request import Request as HttpRequest
from rest_framework.response import Response

from wms2_project.access.identity_operations import LINK, UNLINK, IdentityRow, identity_by_id
from wms2_project.access.operations import ISSUE, REVOKE, TokenRow, token_in, tokens_seen_by
from wms2_project.access.roles import Role, actor_of, groups_of, role_of, sites_of
from wms2_project.api.reads import reads
from wms2_project.api.views import ListView
from wms2_project.models import ApiToken, Identity
from wms2_project.operations import Operation, caller_of
from wms2_project.operations.rest import OperationView


@dataclass(frozen=True, slots=True)
class Me:
    """Account of the caller."""

    username: str
    actor: Annotated[str, "Your name in the audit."]
    role: str
    sites: Annotated[list[str], "Sites you administer."]
    groups: Annotated[list[str], "Groups you may submit requests for."]


@reads("me")
def me(request: HttpRequest) -> Me:
    """Return the caller's account, roles, sites and groups."""
    return Me(
        username=request.user.get_username(),
        actor=actor_of(request),
        role=role_of(request.user).name.lower(),
        sites=sorted(sites_of(request.user)),
        groups=sorted(groups_of(request.user)),
    )


class TokenFilter(filters.FilterSet):  # type: ignore[misc]
    """Filters of tokens."""

    user = filters.CharFilter(field_name="user__username")


class TokenListView(OperationView, ListView):
    """Your tokens, newest first; for admins, all tokens."""

    operation_id = "tokens_list"
    roles: ClassVar[dict[str, Role]] = {"GET": Role.VIEWER}
    operations: ClassVar[dict[str, Operation]] = {"POST": ISSUE}
    queryset = ApiToken.objects.select_related("user")
    serializer_class = TokenRow
    filterset_class = TokenFilter

    def get_queryset(self) -> QuerySet[ApiToken]:
        return tokens_seen_by(caller_of(self.request))


class TokenView(OperationView):
    """One API token."""

    roles: ClassVar[dict[str, Role]] = {"GET": Role.VIEWER}
    operations: ClassVar[dict[str, Operation]] = {"DELETE": REVOKE}

    @extend_schema(operation_id="tokens_get", responses=TokenRow)
    def get(self, request: HttpRequest, token_id: str) -> Response:
        """Return creation, expiry and last use of the token."""
        return Response(TokenRow(token_in(tokens_seen_by(caller_of(request)), token_id)).data)


class IdentityFilter(filters.FilterSet):  # type: ignore[misc]
    """Filters of identities."""

    user = filters.CharFilter(field_name="user__username")
    subject = filters.CharFilter()


class IdentityListView(OperationView, ListView):
    """Certificates and token subjects linked to accounts, newest first."""

    operation_id = "identities_list"
    roles: ClassVar[dict[str, Role]] = {"GET": Role.ADMIN}
    operations: ClassVar[dict[str, Operation]] = {"POST": LINK}
    queryset = Identity.objects.select_related("user")
    serializer_class = IdentityRow
    filterset_class = IdentityFilter


class IdentityView(OperationView):
    """One identity."""

    roles: ClassVar[dict[str, Role]] = {"GET": Role.ADMIN}
    operations: ClassVar[dict[str, Operation]] = {"DELETE": UNLINK}

    @extend_schema(operation_id="identities_get", responses=IdentityRow)
    def get(self, request: HttpRequest, identity_id: int) -> Response:
        """Return the account and last use of the identity."""
        return Response(IdentityRow(identity_by_id(identity_id)).data)
