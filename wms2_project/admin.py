"""The console's pages about access: people, roles (groups of the roles' names), API tokens."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, ClassVar

from django import forms
from django.contrib import admin, messages
from django.contrib.auth.admin import GroupAdmin as DjangoGroupAdmin
from django.contrib.auth.admin import UserAdmin as DjangoUserAdmin
from django.contrib.auth.models import Group, User
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import get_object_or_404
from django.template.response import TemplateResponse
from django.urls import reverse
from django.utils import timezone
from django_celery_beat import models as beat

from wms2_project.api.auth import issue_token
from wms2_project.api.roles import Role, role_of
from wms2_project.console import (
    ActionVariant,
    AdminPasswordChangeForm,
    ModelAdmin,
    ReadOnlyAdmin,
    UnfoldAdminSelectWidget,
    UnfoldAdminTextInputWidget,
    UserChangeForm,
    UserCreationForm,
    action,
    display,
)
from wms2_project.models import ApiToken, AuditEvent

# The schedule is the program's (settings): whoever edited it here would find it overwritten.
for scheduled in (
    beat.ClockedSchedule, beat.CrontabSchedule, beat.IntervalSchedule, beat.PeriodicTask, beat.SolarSchedule,
):  # fmt: skip
    admin.site.unregister(scheduled)
admin.site.unregister(User)
admin.site.unregister(Group)


@admin.register(User)
class UserAdmin(DjangoUserAdmin, ModelAdmin):  # type: ignore[misc, type-arg]
    """People. Whoever is to use the console needs `staff status`; what they may do, their groups say."""

    form = UserChangeForm
    add_form = UserCreationForm
    change_password_form = AdminPasswordChangeForm


@admin.register(Group)
class GroupAdmin(DjangoGroupAdmin, ModelAdmin):  # type: ignore[misc]
    """Roles: viewer, requestor, operator, admin."""


class TokenForm(forms.Form):
    """A new token."""

    user = forms.ModelChoiceField(
        queryset=User.objects.none(), widget=UnfoldAdminSelectWidget, help_text="Whose rights the token has."
    )
    name = forms.CharField(
        max_length=100,
        widget=UnfoldAdminTextInputWidget,
        help_text="What it is for. An older token of this name stops working.",
    )
    days = forms.IntegerField(
        required=False,
        min_value=1,
        max_value=3650,
        widget=UnfoldAdminTextInputWidget,
        label="Valid for days",
        help_text="Empty: until it is revoked.",
    )

    def __init__(self, *args: Any, users: QuerySet[User], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["user"].queryset = users  # type: ignore[attr-defined]


@admin.register(ApiToken)
class ApiTokenAdmin(ReadOnlyAdmin):
    """API tokens. Everybody sees and makes their own; admins everybody's."""

    list_display = ("name", "user", "shown_state", "created_at", "expires_at", "last_used_at")
    fields = ("name", "user", "created_at", "expires_at", "revoked_at", "last_used_at")
    list_select_related = ("user",)
    search_fields = ("name", "user__username")
    ordering = ("-created_at", "-id")
    actions_list: ClassVar[list[str]] = ["issue"]
    actions_detail: ClassVar[list[str]] = ["revoke"]

    def get_queryset(self, request: HttpRequest) -> QuerySet[ApiToken]:
        """One's own tokens; an admin's are all."""
        rows: QuerySet[ApiToken] = super().get_queryset(request)
        return rows if role_of(request.user) >= Role.ADMIN else rows.filter(user_id__in=[request.user.pk])

    @display(description="state", label={"live": "success", "revoked": "danger", "expired": "warning"})
    def shown_state(self, row: ApiToken) -> str:
        """Does it work?"""
        if row.revoked_at:
            return "revoked"
        return "expired" if row.expires_at and row.expires_at <= timezone.now() else "live"

    @action(description="Issue a token", icon="key", variant=ActionVariant.PRIMARY)
    def issue(self, request: HttpRequest) -> HttpResponse:
        """Make a token and show its clear text, this once."""
        everyone = User.objects.filter(is_active=True).order_by("username")
        users = everyone if role_of(request.user) >= Role.ADMIN else everyone.filter(pk__in=[request.user.pk])
        form = TokenForm(request.POST or None, users=users, initial={"user": request.user.pk})
        context = self.admin_site.each_context(request) | {
            "title": "Issue an API token",
            "opts": self.model._meta,
            "form": form,
            "back": reverse("admin:wms2_project_apitoken_changelist"),
        }
        if form.is_valid():
            given = form.cleaned_data
            days = given["days"]
            expires_at = timezone.now() + timedelta(days=days) if days else None
            clear_text = issue_token(user=given["user"], name=given["name"], expires_at=expires_at)
            return TemplateResponse(request, "console/token.html", context | {"clear_text": clear_text})
        return TemplateResponse(request, "console/ask.html", context)

    @action(description="Revoke", icon="key_off", variant=ActionVariant.DANGER)
    def revoke(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """The token stops working at once."""
        token = get_object_or_404(self.get_queryset(request), pk=object_id)
        back = reverse("admin:wms2_project_apitoken_changelist")
        if request.method == "POST":
            ApiToken.objects.filter(pk=token.pk, revoked_at__isnull=True).update(revoked_at=timezone.now())
            messages.success(request, f"The token {token.name} of {token.user} works no more.")
            return HttpResponseRedirect(back)
        context = self.admin_site.each_context(request) | {
            "title": "Revoke",
            "opts": self.model._meta,
            "form": forms.Form(),
            "targets": [f"{token.name} of {token.user}"],
            "back": back,
        }
        return TemplateResponse(request, "console/ask.html", context)


@admin.register(AuditEvent)
class AuditEventAdmin(ReadOnlyAdmin):
    """Who changed what, and why. Status changes stand on the request itself."""

    list_display = ("at", "actor", "action", "target", "reason")
    fields = ("at", "actor", "action", "target", "reason", "detail", "request_id")
    search_fields = ("target", "actor")
    ordering = ("-id",)
