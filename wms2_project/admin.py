"""Console pages of access: people, roles, identities, tokens and the audit."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.contrib.auth.admin import GroupAdmin as DjangoGroupAdmin
from django.contrib.auth.admin import UserAdmin as DjangoUserAdmin
from django.contrib.auth.models import Group, User
from django.contrib.auth.views import PasswordChangeView
from django.db import transaction
from django.db.models import QuerySet
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.urls import reverse
from django.utils import timezone
from django_celery_beat import models as beat

from wms2_project.access import audit
from wms2_project.access.identity_operations import IDENTITY_OPERATIONS
from wms2_project.access.operations import TOKEN_OPERATIONS, tokens_seen_by
from wms2_project.access.roles import Role, actor_of, role_of
from wms2_project.console import (
    AdminOwnPasswordChangeForm,
    AdminPasswordChangeForm,
    ModelAdmin,
    ReadOnlyAdmin,
    UserChangeForm,
    UserCreationForm,
    display,
)
from wms2_project.models import ApiToken, AuditEvent, Identity
from wms2_project.operations import caller_of
from wms2_project.operations.console import OperationAdmin

# The schedule is defined in the settings, which overwrite changes made here.
for scheduled in (
    beat.ClockedSchedule, beat.CrontabSchedule, beat.IntervalSchedule, beat.PeriodicTask, beat.SolarSchedule,
):  # fmt: skip
    admin.site.unregister(scheduled)
admin.site.unregister(User)
admin.site.unregister(Group)
admin.site.login_template = "console/login.html"


def may_enter(request: HttpRequest) -> bool:
    """Return whether the user may open the console: staff status and a role are required."""
    user = request.user
    return bool(user.is_active and user.is_staff) and role_of(user) >= Role.VIEWER


admin.site.has_permission = may_enter  # type: ignore[method-assign]


class OwnPasswordForm(AdminOwnPasswordChangeForm):  # type: ignore[misc]
    def save(self, commit: bool = True) -> User:
        """Change the password and record it in the audit."""
        with transaction.atomic():
            user: User = super().save(commit)
            audit.record(
                actor=f"user:{user}", action="change password", target=f"person {user}",
                reason="in the console",
            )  # fmt: skip
        return user


def change_own_password(request: HttpRequest) -> HttpResponseBase:
    """Change the own password. Unlike the page of unfold, it is audited."""
    page = PasswordChangeView.as_view(
        form_class=OwnPasswordForm,
        success_url=reverse("admin:password_change_done"),
        extra_context=admin.site.each_context(request),
    )
    return page(request)


class AuditedForms:
    """Records changes made in Django's own forms in the audit, in the same transaction."""

    def log_addition(self, request: HttpRequest, obj: Any, message: Any) -> None:
        self._record(request, "add", obj, message)

    def log_change(self, request: HttpRequest, obj: Any, message: Any) -> None:
        self._record(request, "change", obj, message)

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Return False, because the audit refers to the row. Deactivate the account or empty the role
        instead.
        """
        return False

    def _record(self, request: HttpRequest, action: str, obj: Any, message: Any) -> None:
        kind = "person" if isinstance(obj, User) else "role"
        detail = {"roles": sorted(obj.groups.values_list("name", flat=True))} if kind == "person" else {}
        audit.record(
            actor=actor_of(request), action=f"{action} {kind}", target=f"{kind} {obj}",
            reason="in the console", message=message, **detail,
        )  # fmt: skip


@admin.register(User)
class UserAdmin(AuditedForms, DjangoUserAdmin, ModelAdmin):  # type: ignore[misc, type-arg]
    """People. The console requires `staff status`; groups define the permissions."""

    form = UserChangeForm
    add_form = UserCreationForm
    change_password_form = AdminPasswordChangeForm


@admin.register(Group)
class GroupAdmin(AuditedForms, DjangoGroupAdmin, ModelAdmin):  # type: ignore[misc]
    """Roles: viewer, requestor, site_admin:T2_CH_CERN (one per site), operator, admin.

    `member:higgs` is not a role; its members may submit requests of the group higgs.
    """


@admin.register(ApiToken)
class ApiTokenAdmin(OperationAdmin):
    """API tokens. Users see and create their own; admins all."""

    list_display = ("name", "user", "shown_state", "created_at", "expires_at", "last_used_at")
    fields = ("name", "user", "created_at", "expires_at", "revoked_at", "last_used_at")
    list_select_related = ("user",)
    search_fields = ("name", "user__username")
    ordering = ("-created_at", "-id")
    operations = TOKEN_OPERATIONS

    def get_queryset(self, request: HttpRequest) -> QuerySet[ApiToken]:
        """Return the user's own tokens; for admins, all."""
        return tokens_seen_by(caller_of(request))

    target_rows = get_queryset

    @display(description="state", label={"live": "success", "revoked": "danger", "expired": "warning"})
    def shown_state(self, row: ApiToken) -> str:
        if row.revoked_at:
            return "revoked"
        return "expired" if row.expires_at and row.expires_at <= timezone.now() else "live"

    def has_operate_permission(self, request: HttpRequest, obj: object = None) -> bool:
        """Return True: users revoke their own tokens, and the list contains no others."""
        return self.has_view_permission(request)


@admin.register(Identity)
class IdentityAdmin(OperationAdmin):
    """Certificates and token subjects linked to accounts, including robots."""

    list_display = ("subject", "issuer", "user", "created_at", "last_used_at")
    list_select_related = ("user",)
    search_fields = ("subject", "user__username")
    ordering = ("-created_at", "-id")
    operations = IDENTITY_OPERATIONS

    def has_view_permission(self, request: HttpRequest, obj: object = None) -> bool:
        """Return whether the user is an admin: identities are personal data."""
        return role_of(request.user) >= Role.ADMIN

    has_operate_permission = has_view_permission


@admin.register(AuditEvent)
class AuditEventAdmin(ReadOnlyAdmin):
    """Audit rows."""

    list_display = ("at", "actor", "action", "target", "reason")
    fields = ("at", "actor", "action", "target", "reason", "detail", "request_id", "number", "seal")
    search_fields = ("target", "actor")
    search_help_text = "Part of the target or actor"
    ordering = ("-id",)

    def has_view_permission(self, request: HttpRequest, obj: object = None) -> bool:
        return role_of(request.user) >= Role.OPERATOR

    def get_object(self, request: HttpRequest, object_id: str, from_field: str | None = None) -> Any:
        """Return the event, without details reserved for admins."""
        event = super().get_object(request, object_id, from_field)
        if event is not None:
            event.detail = audit.shown_detail(event, to_admin=role_of(request.user) >= Role.ADMIN)
        return event
