"""The console's ground: Django's admin in unfold's dress. It shows everything and saves nothing.

Every change goes through a service and asks for a reason first; a refusal is shown as the service
words it. unfold is imported here and nowhere else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import datetime, timedelta
from typing import Any, TypeVar, cast

from django import forms
from django.contrib import messages
from django.contrib.admin import ShowFacets, SimpleListFilter, helpers
from django.contrib.admin.utils import quote, unquote
from django.core.exceptions import PermissionDenied, ValidationError
from django.core.paginator import Paginator
from django.db.models import Model, QuerySet
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import get_object_or_404
from django.template.response import TemplateResponse
from django.urls import reverse
from django.utils.functional import cached_property
from django.utils.html import format_html
from django.utils.safestring import SafeString
from unfold import decorators
from unfold.admin import ModelAdmin, TabularInline
from unfold.enums import ActionVariant
from unfold.forms import (
    AdminOwnPasswordChangeForm,
    AdminPasswordChangeForm,
    AuthenticationForm,
    UserChangeForm,
    UserCreationForm,
)
from unfold.views import ChangeList
from unfold.widgets import (
    UnfoldAdminIntegerFieldWidget,
    UnfoldAdminSelectWidget,
    UnfoldAdminTextareaWidget,
    UnfoldAdminTextInputWidget,
    UnfoldBooleanWidget,
)

from wms2_project.access.proxies import client_address
from wms2_project.access.roles import Role, role_of
from wms2_project.access.throttles import address_block, seconds_to_wait
from wms2_project.errors import Wms2Error

__all__ = [
    "ActionVariant",
    "AdminOwnPasswordChangeForm",
    "AdminPasswordChangeForm",
    "BoundedPaginator",
    "ChangeList",
    "LoginForm",
    "ModelAdmin",
    "ReadOnlyAdmin",
    "ReadOnlyTable",
    "ReasonForm",
    "Table",
    "UnfoldAdminIntegerFieldWidget",
    "UnfoldAdminSelectWidget",
    "UnfoldAdminTextInputWidget",
    "UnfoldAdminTextareaWidget",
    "UnfoldBooleanWidget",
    "UserChangeForm",
    "UserCreationForm",
    "ValueFilter",
    "action",
    "address_of",
    "age_of",
    "clipped",
    "display",
    "link",
    "progress_bar",
    "request_link",
    "row_at",
    "size_of",
]
Apply = Callable[[Any, Any], str]  # target, valid form → message
Table = dict[str, Any]  # headers and rows, as unfold's table component takes them
Method = TypeVar("Method", bound=Callable[..., Any])


def action(**options: Any) -> Callable[[Method], Method]:
    """A button or a bulk action; unfold's decorator, typed."""
    return cast(Callable[[Method], Method], decorators.action(**options))


def display(**options: Any) -> Callable[[Method], Method]:
    """A column; unfold's decorator, typed."""
    return cast(Callable[[Method], Method], decorators.display(**options))


def may_operate(request: HttpRequest) -> bool:
    """Is this person an operator? Decides what the menu shows."""
    return role_of(request.user) >= Role.OPERATOR


class BoundedPaginator(Paginator):  # type: ignore[type-arg]
    """Counts to 10,000 and no further: whoever has more rows needs a filter, not page 4,711."""

    most = 10_000

    @cached_property
    def count(self) -> int:
        """How many rows there are, as far as anybody would page."""
        rows = self.object_list
        return rows.order_by()[: self.most].count() if isinstance(rows, QuerySet) else len(rows)


class LoginForm(AuthenticationForm):  # type: ignore[misc]
    """The console's login. Each try is counted before the password is looked at, so guessing ends."""

    def clean(self) -> Any:
        """Refuse too many attempts from one address, or for one name from all addresses.

        What the address's limit refuses does not count for the name, whose limit is the higher one: from one
        address nobody can lock a name for others.
        """
        name = str(self.cleaned_data.get("username", "")).lower()
        wait = seconds_to_wait("logins", address_block(client_address(self.request)))
        if wait := wait or seconds_to_wait("login_names", name):
            raise forms.ValidationError(f"Too many attempts. Try again in {wait:.0f} s.")
        return super().clean()

    def confirm_login_allowed(self, user: Any) -> None:
        """Refuse an account that may do nothing here."""
        super().confirm_login_allowed(user)
        if role_of(user) < Role.VIEWER:
            raise forms.ValidationError("This account has no role. Ask an administrator for one.")


class ReasonForm(forms.Form):
    """What every action asks."""

    reason = forms.CharField(
        max_length=1000,
        widget=UnfoldAdminTextareaWidget(attrs={"rows": 3}),
        help_text="Kept in the audit, with your name.",
    )


class ReadOnlyAdmin(ModelAdmin):  # type: ignore[misc]
    """Shows rows to everyone who may look; offers actions to operators; adds, changes, deletes nothing."""

    paginator = BoundedPaginator
    show_full_result_count = False
    show_facets = ShowFacets.NEVER  # they would count every row once per choice
    list_per_page = 50
    list_fullwidth = True
    list_disable_select_all = True  # an action on rows nobody looked at is a slip

    def has_module_permission(self, request: HttpRequest) -> bool:
        """May this person see the application at all?"""
        return self.has_view_permission(request)

    def has_view_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        """Whoever may log in here may look."""
        return role_of(request.user) >= Role.VIEWER

    def has_operate_permission(self, request: HttpRequest, obj: object = None) -> bool:
        """Actions are the operators'."""
        return role_of(request.user) >= Role.OPERATOR

    def has_add_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        """Never."""
        return False

    def has_change_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        """Never."""
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        """Never."""
        return False

    def get_fields(self, request: HttpRequest, obj: Model | None = None) -> list[Any]:
        """What of the row says something: an empty field only takes room."""
        names = super().get_fields(request, obj)
        return [name for name in names if getattr(obj, str(name), name) not in (None, "", {}, [])]

    @display(description="request")
    def of_request(self, row: Any) -> SafeString | str:
        """Whose it is; what belongs to no workflow is everybody's."""
        return request_link(row.workflow.request_name) if row.workflow else "all"

    def changeform_view(
        self,
        request: HttpRequest,
        object_id: str | None = None,
        form_url: str = "",
        extra_context: Any = None,
    ) -> HttpResponse:
        """One row; without Django's own history, in which nothing would ever stand."""
        context = {"show_history": False} | (extra_context or {})
        answer: HttpResponse = super().changeform_view(request, object_id, form_url, context)
        return answer

    def get_object(self, request: HttpRequest, object_id: str, from_field: str | None = None) -> Any:
        """Return the row of this page, or None if there is none."""
        return None if "\0" in object_id else super().get_object(request, object_id, from_field)

    def ask(
        self,
        request: HttpRequest,
        *,
        title: str,
        targets: Iterable[Any],
        apply: Apply,
        back: str,
        effect: str = "",
        form_class: type[forms.Form] = ReasonForm,
        initial: dict[str, Any] | None = None,
        filled: dict[str, Any] | None = None,
        bulk_action: str = "",
    ) -> HttpResponse:
        """Show a form; when it is confirmed, apply it to each target and report each result.

        `initial` are present values, `filled` are suggested ones.
        """
        targets = list(targets)
        if not all(self.has_operate_permission(request, target) for target in targets or [None]):
            raise PermissionDenied
        confirmed = "_confirmed" in request.POST
        shown = (initial or {}) if confirmed else (initial or {}) | (filled or {})
        form = form_class(request.POST if confirmed else None, initial=shown)
        if confirmed and form.is_valid():
            for target in targets:
                self._apply(request, target, apply, form)
            return HttpResponseRedirect(back)
        context = self.admin_site.each_context(request) | {
            "title": title,
            "effect": effect,
            "opts": self.model._meta,
            "form": form,
            "targets": targets,
            "back": back,
            "bulk_action": bulk_action,
            "checkbox": helpers.ACTION_CHECKBOX_NAME,
        }
        return TemplateResponse(request, "console/ask.html", context)

    def _apply(self, request: HttpRequest, target: Any, apply: Apply, form: forms.Form) -> None:
        try:
            messages.success(request, apply(target, form))
        except Wms2Error as error:
            named = str(target) in str(error)
            messages.error(request, str(error) if named else f"{target}: {error}")


class ValueFilter(SimpleListFilter):
    """Filter by a column, with fewer choices than the column has values."""

    parameter_name: str

    def values(self) -> Iterable[str]:
        """Return the values to choose from; the chosen one is added."""
        raise NotImplementedError

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        chosen = self.value()
        values = sorted({*self.values()} | ({chosen} if chosen else set()))
        return [(value, self.label_of(value)) for value in values]

    def label_of(self, value: str) -> str:
        return value

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        return queryset.filter(**{self.parameter_name: self.value()}) if self.value() else queryset


class ReadOnlyTable(TabularInline):  # type: ignore[misc]
    """Rows that belong to the one shown."""

    extra = 0
    can_delete = False
    per_page = 50
    show_change_link = False
    hide_title = True

    def has_view_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        """Whoever sees the row above sees these."""
        return role_of(request.user) >= Role.VIEWER

    def has_add_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        """Never."""
        return False

    def has_change_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        """Never."""
        return False


def age_of(since: datetime | None, *, now: datetime) -> str:
    """How long ago, in the largest unit that says enough."""
    if since is None:
        return "–"
    seconds = max(0, int((now - since) / timedelta(seconds=1)))
    for unit, length in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= 2 * length:
            return f"{seconds // length}\N{NO-BREAK SPACE}{unit}"
    return f"{seconds}\N{NO-BREAK SPACE}s"


def size_of(size_bytes: int | None) -> str:
    """A size in decimal units, as storage is counted."""
    size = float(size_bytes or 0)
    for unit in ("B", "kB", "MB", "GB", "TB"):
        if size < 1000:
            return f"{size:.{0 if unit == 'B' else 1}f}\N{NO-BREAK SPACE}{unit}"
        size /= 1000
    return f"{size:.1f}\N{NO-BREAK SPACE}PB"


def clipped(text: str) -> SafeString:
    """One line of a long text; the whole is in its tooltip."""
    return format_html('<span class="wms2-clip" title="{}">{}</span>', text, text)


def link(text: str, view: str, *args: Any, query: str = "") -> SafeString:
    """A link to a page of the console."""
    return _anchor(text, address_of(view, *args) + (f"?{query}" if query else ""))


def address_of(view: str, *args: Any) -> str:
    """The address of a page; the admin reads `_CE` in a site's name as a character unless it is quoted."""
    return reverse(view, args=[quote(one) for one in args])


def row_at(rows: type[Model] | QuerySet[Any], object_id: str) -> Any:
    """Return the row a button's address names; Http404 if there is none, or if this is no key at all."""
    key = unquote(object_id)
    if "\0" in key:  # PostgreSQL takes it for a broken query
        raise Http404
    try:
        return get_object_or_404(rows, pk=key)
    except (ValidationError, ValueError) as error:
        raise Http404 from error


def _anchor(text: str, url: str) -> SafeString:
    return format_html('<a class="text-primary-600 dark:text-primary-500" href="{}">{}</a>', url, text)


def request_link(name: str) -> SafeString:
    """A link to the page of the request of this name."""
    return _anchor(name, reverse("admin:requests_app_request_change", args=[name]))


def progress_bar(fraction: float, *, label: str = "") -> SafeString:
    """A bar with its number."""
    percent = round(100 * min(max(fraction, 0.0), 1.0), 1)
    return format_html(
        '<div class="flex flex-row gap-2 items-center" title="{label}">'
        '<progress class="wms2-progress" max="100" value="{percent}">{percent} %</progress>'
        '<span class="wms2-figure whitespace-nowrap">{percent} %</span></div>',
        percent=f"{percent:g}",
        label=label,
    )
